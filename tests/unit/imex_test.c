/* SPDX-License-Identifier: MIT */
/*
 * IMEX channels: which files are channels, who holds one, and what shows it to others.
 */
#include "harness.h"
#include "share/port/imex.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { NOBODY = 64127, PLACE = 12345 };

static const char *path_of(const char *name)
{
	static char paths[2][600];
	static unsigned next;
	char *path = paths[next++ % 2];

	snprintf(path, sizeof paths[0], "%s/imex%s%s", test_directory(), *name ? "/" : "", name);
	return path;
}

static void look_in_new_directory(void)
{
	ASSERT_SYS(mkdir(path_of(""), 0755));
	ASSERT_SYS(setenv("CENOTE_IMEX_DIR", path_of(""), 1));
}

static void make_channel(const char *name, mode_t mode)
{
	int file = open(path_of(name), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	ASSERT_SYS(file);
	ASSERT_SYS(fchmod(file, mode));
	ASSERT_SYS(close(file));
}

static const struct cn_imex *own(void)
{
	const struct cn_imex *channel = NULL;

	ASSERT_OK(cn_imex_own(&channel));
	leaks_start_here(); /* it stays open for good */
	return channel;
}

static void expect_none(const char *words)
{
	const struct cn_imex *untouched = (const struct cn_imex *)&untouched, *channel = untouched;

	ASSERT_ERROR(CUDA_ERROR_NOT_PERMITTED, cn_imex_own(&channel));
	ASSERT_EQ(untouched, channel);
	ASSERT_CONTAINS("IMEX", cn_last_error());
	ASSERT_CONTAINS(words, cn_last_error());
}

/* ---- Looking for one ---- */

TEST(without_a_channel_it_is_said_how_to_get_one)
{
	unsetenv("CENOTE_IMEX_DIR");
	expect_none("set CENOTE_IMEX_DIR");
	ASSERT_SYS(setenv("CENOTE_IMEX_DIR", "", 1));
	expect_none("set CENOTE_IMEX_DIR");
	ASSERT_SYS(setenv("CENOTE_IMEX_DIR", path_of(""), 1));
	expect_none("No such file");
	look_in_new_directory();
	expect_none("cenote imex create 0");
}

/* Goal: a miss is looked for again, a hit is not. */
TEST(what_was_found_stays)
{
	const struct cn_imex *found;

	look_in_new_directory();
	expect_none("has none");
	make_channel("channel5", 0444);
	const struct cn_imex *channel = own();
	ASSERT_EQ(5, channel->number);
	ASSERT_SYS(unlink(path_of("channel5")));
	make_channel("channel1", 0444);
	ASSERT_EQ(channel, own());
	ASSERT_OK(cn_imex_find(5, &found));
	ASSERT_EQ(channel, found);
}

TEST(the_lowest_number_is_taken)
{
	static const char *const names[] = {"channel30", "channel7", "channel100", "channel9"};
	const struct cn_imex *found, *again;

	look_in_new_directory();
	for (size_t i = 0; i < 4; i++)
		make_channel(names[i], 0444);
	ASSERT_EQ(7, own()->number);
	ASSERT_OK(cn_imex_find(100, &found));
	ASSERT_OK(cn_imex_find(100, &again));
	ASSERT_EQ(found, again);
	ASSERT_EQ(100, found->number);
	leaks_start_here();
	ASSERT_ERROR(CUDA_ERROR_NOT_PERMITTED, cn_imex_find(8, &found));
	ASSERT_CONTAINS("the exporter's IMEX channel is 8", cn_last_error());
}

/* Goal: names as printf() writes them, and no others. */
TEST(names_of_other_forms_are_none)
{
	static const char *const names[] = {
		"channel",   "channel00", "channel01",          "channel+1",
		"channel 1", "channel1 ", "channel-0",          "channel0x0",
		"channelx",  "xchannel0", "CHANNEL0",           "channel2147483648",
		"channel1.", "chan0",     "channel-2147483649", "channel99999999999999999999",
	};

	look_in_new_directory();
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		make_channel(names[i], 0444);
	expect_none("has none");
	make_channel("channel2147483647", 0444);
	make_channel("channel-1", 0444);
	ASSERT_EQ(-1, own()->number);
}

/* Goal: what is no file is passed over, and nobody waits at a FIFO. */
TEST(only_files_are_channels)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	look_in_new_directory();
	ASSERT_SYS(mkdir(path_of("channel0"), 0755));
	expect_none("it is no file");
	ASSERT_SYS(mkfifo(path_of("channel1"), 0644));
	ASSERT_SYS(sock);
	ASSERT_LT(snprintf(address.sun_path, sizeof address.sun_path, "%s", path_of("channel2")),
		  (int)sizeof address.sun_path);
	ASSERT_SYS(bind(sock, (const struct sockaddr *)&address, sizeof address));
	ASSERT_SYS(symlink("/nowhere", path_of("channel3")));
	expect_none("channel");
	make_channel("channel4", 0444);
	ASSERT_EQ(4, own()->number);
	ASSERT_SYS(close(sock));
}

/* Goal: to read is enough, and nothing less is. */
TEST(a_channel_that_cannot_be_read_is_none)
{
	static const mode_t modes[] = {0000, 0111, 0222, 0333};
	bool root = geteuid() == 0;
	const struct cn_imex *found;

	look_in_new_directory();
	ASSERT_SYS(chmod(test_directory(), 0711));
	make_channel("channel0", 0000);
	make_channel("channel1", 0000);
	if (root)
		ASSERT_SYS(seteuid(NOBODY));
	for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
		if (root)
			ASSERT_SYS(seteuid(0));
		ASSERT_SYS(chmod(path_of("channel0"), modes[i]));
		if (root)
			ASSERT_SYS(seteuid(NOBODY));
		expect_none("Permission denied");
		ASSERT_ERROR(CUDA_ERROR_NOT_PERMITTED, cn_imex_find(0, &found));
		ASSERT_CONTAINS("Permission denied", cn_last_error());
	}
	if (root)
		ASSERT_SYS(seteuid(0));
	ASSERT_SYS(chmod(path_of("channel1"), 0444));
	if (root)
		ASSERT_SYS(seteuid(NOBODY));
	ASSERT_EQ(1, own()->number);
	if (root)
		ASSERT_SYS(seteuid(0));
}

/* The highest place that a channel can be marked at. */
#define LAST_PLACE (((uint64_t)1 << 62) - 1)

/* ---- Showing it ---- */

TEST(only_the_opened_channel_is_a_proof)
{
	look_in_new_directory();
	make_channel("channel0", 0666);
	make_channel("channel1", 0666);
	const struct cn_imex *channel = own();
	struct {
		const char *name;
		int flags;
		bool good;
	} cases[] = {
		{"channel0", O_RDONLY, true}, {"channel0", O_RDWR, true},
		{"channel0", O_PATH, false},  {"channel0", O_WRONLY, false},
		{"channel0", 3, false},       {"channel1", O_RDONLY, false},
		{"", O_RDONLY, false},        {"channel0", O_PATH | O_RDWR, false},
	};
	int ends[2];

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		int fd = open(path_of(cases[i].name), cases[i].flags | O_CLOEXEC);
		ASSERT_SYS(fd);
		if (cn_imex_is_proof(channel, fd) != cases[i].good)
			FAIL("%s opened with flags %o", cases[i].name, (unsigned)cases[i].flags);
		ASSERT_SYS(close(fd));
	}
	ASSERT_SYS(pipe2(ends, O_CLOEXEC));
	ASSERT(!cn_imex_is_proof(channel, ends[0]));
	ASSERT_SYS(close(ends[0]));
	ASSERT(!cn_imex_is_proof(channel, ends[0])); /* not open any more */
	ASSERT_SYS(close(ends[1]));
	/* A new file of the old name is another one. */
	ASSERT_SYS(unlink(path_of("channel0")));
	leaks_start_here();
	make_channel("channel0", 0666);
	int fd = open(path_of("channel0"), O_RDONLY | O_CLOEXEC);
	ASSERT(!cn_imex_is_proof(channel, fd));
	ASSERT_SYS(close(fd));
}

TEST(a_mark_is_seen_where_it_is_and_goes_with_its_descriptor)
{
	const struct cn_imex *other;
	int mark, neighbour;

	look_in_new_directory();
	make_channel("channel0", 0444);
	make_channel("channel1", 0444);
	const struct cn_imex *channel = own();
	ASSERT_OK(cn_imex_find(1, &other));
	leaks_start_here();
	ASSERT(!cn_imex_is_marked(channel, PLACE));
	ASSERT_OK(cn_imex_mark(channel, PLACE, &mark));
	ASSERT(cn_imex_is_marked(channel, PLACE));
	ASSERT(!cn_imex_is_marked(channel, PLACE - 1));
	ASSERT(!cn_imex_is_marked(channel, PLACE + 1));
	ASSERT(!cn_imex_is_marked(other, PLACE));
	ASSERT_OK(cn_imex_mark(channel, PLACE + 1, &neighbour));
	ASSERT(cn_imex_is_marked(channel, PLACE));
	ASSERT(cn_imex_is_marked(channel, PLACE + 1));
	/* That the program looks at the file and closes it again changes nothing. */
	ASSERT_SYS(close(open(path_of("channel0"), O_RDONLY | O_CLOEXEC)));
	ASSERT(cn_imex_is_marked(channel, PLACE));
	ASSERT_SYS(close(mark));
	ASSERT(!cn_imex_is_marked(channel, PLACE));
	ASSERT(cn_imex_is_marked(channel, PLACE + 1));
	ASSERT_SYS(close(neighbour));
	ASSERT_OK(cn_imex_mark(channel, LAST_PLACE, &mark));
	ASSERT(cn_imex_is_marked(channel, LAST_PLACE));
	ASSERT_SYS(close(mark));
}

/* Goal: other locks are no marks, and a process that locks the whole file is named as the reason. */
TEST(locks_of_others_are_no_marks)
{
	struct flock all = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
	int mark;

	look_in_new_directory();
	make_channel("channel0", 0666);
	const struct cn_imex *channel = own();
	int other = open(path_of("channel0"), O_RDWR | O_CLOEXEC);
	ASSERT_SYS(other);
	ASSERT_SYS(fcntl(other, F_OFD_SETLK, &all));
	ASSERT(!cn_imex_is_marked(channel, PLACE));
	all.l_type = F_WRLCK;
	ASSERT_SYS(fcntl(other, F_OFD_SETLK, &all));
	ASSERT(!cn_imex_is_marked(channel, PLACE));
	ASSERT_ERROR(CUDA_ERROR_OPERATING_SYSTEM, cn_imex_mark(channel, PLACE, &mark));
	ASSERT_CONTAINS("locked it for writing", cn_last_error());
	ASSERT_SYS(close(other));
	ASSERT_OK(cn_imex_mark(channel, PLACE, &mark));
	ASSERT_SYS(close(mark));
}
