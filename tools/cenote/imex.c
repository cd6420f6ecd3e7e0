/* SPDX-License-Identifier: MIT */
/*
 * cenote imex: the channels of the host device, and the nodes of its domain.
 *
 * An IMEX channel is a file: processes that can open it for reading may share memory by fabric handles with each other.
 * The host device's channels are files channelN in CENOTE_IMEX_DIR. Their content does not matter; their readers do, so
 * the file system's own permissions control them, and this command only saves the user from knowing the names.
 */
#include "imex.h"

#include "command.h"

#include <cenote/cenote.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "channel"

enum { NAME_BYTES = 32, CHANNELS_MAX = 65536 };

struct channel {
	int number;
	unsigned mode, user, group;
	bool readable; /* by this user */
};

int imex_fail(const char *format, ...)
{
	va_list arguments;

	fputs("cenote imex: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	return EXIT_FAILURE;
}

/* A decimal number as printf writes it: channel 7 has one name, and channel07 is none. */
static bool read_number(const char *text, int *ret_number)
{
	char again[NAME_BYTES];
	char *end;

	errno = 0;
	long number = strtol(text, &end, 10);
	if (errno || *end || number < 0 || number > 0x7fffffff)
		return false;
	snprintf(again, sizeof again, "%ld", number);
	if (strcmp(again, text) != 0)
		return false;
	*ret_number = (int)number;
	return true;
}

static bool read_mode(const char *text, mode_t *ret_mode)
{
	char *end;
	unsigned long mode = strtoul(text, &end, 8);

	if (end == text || *end || *text < '0' || *text > '7' || mode > 0777)
		return false;
	*ret_mode = (mode_t)mode;
	return true;
}

/* The directory of the channels, opened; -1 and a sentence. `make`: create it if it does not exist. */
static int open_directory(bool make, const char **ret_path)
{
	const char *path = getenv("CENOTE_IMEX_DIR");

	if (!path || !*path) {
		imex_fail("CENOTE_IMEX_DIR is not set; set it to the directory that has the channels,\n"
			  "for all processes that share: export CENOTE_IMEX_DIR=/path/of/a/directory");
		return -1;
	}
	if (make && mkdir(path, 0755) && errno != EEXIST) {
		imex_fail("CENOTE_IMEX_DIR: %s cannot be made: %s", path, strerror(errno));
		return -1;
	}
	int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (directory < 0)
		imex_fail("CENOTE_IMEX_DIR: %s: %s%s", path, strerror(errno),
			  errno == ENOENT ? "; `cenote imex create` makes it" : "");
	*ret_path = path;
	return directory;
}

/* ---- create and remove ------------------------------------------------------------------------------------------- */

static int create(const struct imex_request *request)
{
	mode_t mode = 0444; /* sharing needs only reading; a writer could lock it against all others */
	char name[NAME_BYTES];
	const char *path;
	int number;

	if (!read_number(request->number, &number))
		return usage_error("imex", "invalid channel number '%s'", request->number);
	if (request->mode && !read_mode(request->mode, &mode))
		return usage_error("imex", "invalid mode '%s': --mode takes an octal number, such as 0640",
				   request->mode);
	int directory = open_directory(true, &path);
	if (directory < 0)
		return EXIT_FAILURE;
	snprintf(name, sizeof name, PREFIX "%d", number);
	int file = openat(directory, name, O_RDONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	int error = errno;
	if (file >= 0 && request->mode && fchmod(file, mode)) { /* what was asked for, whatever the umask says */
		error = errno;
		unlinkat(directory, name, 0);
		close(file);
		file = -1;
	}
	close(directory);
	if (file < 0 && error == EEXIST)
		return imex_fail("channel %d is already there (%s/%s)", number, path, name);
	if (file < 0)
		return imex_fail("%s/%s cannot be made: %s", path, name, strerror(error));
	close(file);
	printf("created %s/%s\n", path, name);
	return EXIT_SUCCESS;
}

static int remove_channel(const struct imex_request *request)
{
	char name[NAME_BYTES];
	const char *path;
	int number;

	if (!read_number(request->number, &number))
		return usage_error("imex", "invalid channel number '%s'", request->number);
	int directory = open_directory(false, &path);
	if (directory < 0)
		return EXIT_FAILURE;
	snprintf(name, sizeof name, PREFIX "%d", number);
	int error = unlinkat(directory, name, 0) ? errno : 0;
	close(directory);
	if (error == ENOENT)
		return imex_fail("there is no channel %d in %s", number, path);
	if (error)
		return imex_fail("%s/%s cannot be removed: %s", path, name, strerror(error));
	printf("removed %s/%s\n", path, name);
	return EXIT_SUCCESS;
}

/* ---- list -------------------------------------------------------------------------------------------------------- */

static int compare_channels(const void *left, const void *right)
{
	int one = ((const struct channel *)left)->number, other = ((const struct channel *)right)->number;

	return one < other ? -1 : one > other;
}

/* The channels of an open directory, by number. -1: no memory. */
static int read_channels(DIR *entries, struct channel **ret_channels)
{
	struct channel *channels = NULL;
	int count = 0, room = 0;

	for (struct dirent *entry; (entry = readdir(entries)) && count < CHANNELS_MAX;) {
		struct channel channel;
		struct stat status;
		if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0 ||
		    !read_number(entry->d_name + strlen(PREFIX), &channel.number) ||
		    fstatat(dirfd(entries), entry->d_name, &status, 0))
			continue;
		channel.mode = status.st_mode & 0777;
		channel.user = status.st_uid;
		channel.group = status.st_gid;
		channel.readable = faccessat(dirfd(entries), entry->d_name, R_OK, AT_EACCESS) == 0;
		if (count == room) {
			room = room ? 2 * room : 16;
			struct channel *more = realloc(channels, (size_t)room * sizeof *more);
			if (!more) {
				free(channels);
				return -1;
			}
			channels = more;
		}
		channels[count++] = channel;
	}
	if (count)
		qsort(channels, (size_t)count, sizeof *channels, compare_channels);
	*ret_channels = channels;
	return count;
}

static void print_channels(const char *path, const struct channel *channels, int count)
{
	if (!count) {
		printf("%s has no channel; `cenote imex create 0` makes one\n", path);
		return;
	}
	printf("%-10s  %-4s  %10s  %10s  %s\n", "CHANNEL", "MODE", "USER", "GROUP", "HERE");
	for (int i = 0; i < count; i++)
		printf("%-10d  %04o  %10u  %10u  %s\n", channels[i].number, channels[i].mode, channels[i].user,
		       channels[i].group, channels[i].readable ? "can be used" : "may not be read");
}

static void print_channels_json(const char *path, const struct channel *channels, int count)
{
	fputs("{\n  \"directory\": ", stdout);
	print_json_string(path);
	fputs(",\n  \"channels\": [", stdout);
	for (int i = 0; i < count; i++)
		printf("%s\n    {\"number\": %d, \"mode\": \"%04o\", \"user\": %u, \"group\": %u, \"readable\": %s}",
		       i ? "," : "", channels[i].number, channels[i].mode, channels[i].user, channels[i].group,
		       channels[i].readable ? "true" : "false");
	printf("%s]\n}\n", count ? "\n  " : "");
}

static int list(const struct imex_request *request)
{
	struct channel *channels = NULL;
	const char *path;
	int directory = open_directory(false, &path);

	if (directory < 0)
		return EXIT_FAILURE;
	DIR *entries = fdopendir(directory);
	if (!entries) {
		close(directory);
		return imex_fail("%s: %s", path, strerror(errno));
	}
	int count = read_channels(entries, &channels);
	closedir(entries);
	if (count < 0)
		return imex_fail("no memory for the list");
	if (request->json)
		print_channels_json(path, channels, count);
	else
		print_channels(path, channels, count);
	free(channels);
	return EXIT_SUCCESS;
}

/* ---- status ------------------------------------------------------------------------------------------------------ */

static void print_node(const cenote_imex_node *node, bool json)
{
	const char *state = node->is_self ? "this node" : node->is_up ? "up" : "not connected";

	if (json)
		printf("%s\n    {\"number\": %u, \"self\": %s, \"up\": %s, \"imports\": %llu, \"served\": %llu}",
		       node->number > 1 ? "," : "", node->number, node->is_self ? "true" : "false",
		       node->is_up ? "true" : "false", node->import_count, node->served_count);
	else
		printf("%-6u  %-13s  %10llu  %10llu\n", node->number, state, node->import_count, node->served_count);
}

static int show_status(const struct imex_request *request)
{
	cenote_imex_node self, node;

	if (cenote_imex_look(0, &self))
		return imex_fail("%s", cenote_last_error());
	if (request->json)
		printf("{\n  \"node\": %u,\n  \"nodes\": [", self.number);
	else
		printf("%-6s  %-13s  %10s  %10s\n", "NODE", "STATE", "IMPORTED", "SERVED");
	for (unsigned number = 1; number <= self.node_count; number++) {
		if (cenote_imex_look(number, &node))
			return imex_fail("%s", cenote_last_error());
		print_node(&node, request->json);
	}
	if (request->json)
		puts("\n  ]\n}");
	return EXIT_SUCCESS;
}

/* ---- The command ------------------------------------------------------------------------------------------------- */

static const struct action {
	const char *name;
	bool takes_number, takes_mode, takes_json;
	int (*run)(const struct imex_request *request);
} actions[] = {
	{"create", true, true, false, create},          {"list", false, false, true, list},
	{"remove", true, false, false, remove_channel}, {"start", false, false, false, imex_start},
	{"status", false, false, true, show_status},    {"stop", false, false, false, imex_stop},
};

/* The options of start. True: this is one, and *i is behind it. */
static bool read_start_option(struct imex_request *request, int argument_count, char **arguments, int *i)
{
	const struct {
		const char *name;
		const char **value;
	} options[] = {{"--nodes", &request->nodes},
		       {"--key", &request->key},
		       {"--node", &request->node},
		       {"--log", &request->log},
		       {"--transport", &request->transport}};

	for (size_t at = 0; at < sizeof options / sizeof options[0]; at++)
		if (strcmp(arguments[*i], options[at].name) == 0 && *i + 1 < argument_count) {
			*options[at].value = arguments[++*i];
			return true;
		}
	return false;
}

static int read_arguments(const struct action *action, int argument_count, char **arguments,
			  struct imex_request *request)
{
	for (int i = 0; i < argument_count; i++) {
		const char *argument = arguments[i];
		if (action->run == imex_start && read_start_option(request, argument_count, arguments, &i))
			continue;
		if (action->takes_json && strcmp(argument, "--json") == 0) {
			request->json = true;
		} else if (action->takes_mode && strncmp(argument, "--mode=", 7) == 0) {
			request->mode = argument + 7;
		} else if (action->takes_mode && strcmp(argument, "--mode") == 0) {
			if (++i == argument_count)
				return usage_error("imex", "--mode takes an octal number, such as 0640");
			request->mode = arguments[i];
		} else if (strncmp(argument, "--", 2) == 0) {
			return refuse_word("imex", argument);
		} else if (!action->takes_number || request->number) {
			return usage_error("imex", "%s: unexpected argument '%s'", action->name, argument);
		} else {
			request->number = argument;
		}
	}
	if (action->takes_number && !request->number)
		return usage_error("imex", "%s takes a channel number", action->name);
	return 0;
}

static int imex(int argument_count, char **arguments)
{
	struct imex_request request = {0};

	if (argument_count < 2)
		return usage_error("imex", "missing action: create, list, remove, start, status or stop");
	for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
		if (strcmp(arguments[1], actions[i].name) != 0)
			continue;
		int status = read_arguments(&actions[i], argument_count - 2, arguments + 2, &request);
		return status ? status : actions[i].run(&request);
	}
	return usage_error("imex", "unknown action '%s': use create, list, remove, start, status or stop",
			   arguments[1]);
}

const struct command command_imex = {
	.name = "imex",
	.summary = "the IMEX channels that fabric handles need, and the nodes of the domain",
	.help = "Usage: cenote imex create N [--mode MODE]\n"
		"       cenote imex list [--json]\n"
		"       cenote imex remove N\n"
		"       cenote imex start --nodes FILE --key FILE [--node N] [--log FILE]\n"
		"       cenote imex start --nodes FILE --transport ucx [--node N] [--log FILE]\n"
		"       cenote imex status [--json]\n"
		"       cenote imex stop\n"
		"\n"
		"Fabric handles (CU_MEM_HANDLE_TYPE_FABRIC) share memory between processes that can read "
		"the same IMEX\n"
		"channel, of one user or of several. The host device's channels are files channelN in the directory\n"
		"CENOTE_IMEX_DIR, which must be set for all of these processes.\n"
		"\n"
		"  create N   create channel N, and the directory if it is missing. Without --mode all users may read\n"
		"             it, as far as the umask allows; with 0600 only this user, with 0640 its group too.\n"
		"  list       list the channels, and whether this user can use them\n"
		"  remove N   remove channel N. Processes that use it keep it until they end.\n"
		"  start      start cenote-imexd in the background, with the list of nodes and the domain's key; it\n"
		"             is started again when it ends by itself. --log: where it says which nodes come and go.\n"
		"             --transport ucx: cenote-imexd-ucx, without a key, for networks that are trusted\n"
		"  status     show which nodes of the domain are up, as cenote-imexd here sees it, how much programs\n"
		"             here have imported from each, and how much its programs have imported from here\n"
		"  stop       end cenote-imexd of this machine. What programs imported through it is lost\n"
		"\n"
		"An exporter uses the lowest channel that it can read; an importer must be able to read the same one.\n"
		"\n"
		"A GPU's channels are device nodes. Root makes them, with the number that /proc/devices shows for\n"
		"nvidia-caps-imex-channels: mknod /dev/nvidia-caps-imex-channels/channel0 c NUMBER 0\n"
		"\n"
		"Exit status: 1 if the directory is not set or cannot be used, the channel to create "
		"exists, or the one\n"
		"to remove does not, or cenote-imexd does not answer, start or end; a sentence says which.\n"
		"\n"
		"Example: export CENOTE_IMEX_DIR=$HOME/channels; cenote imex create 0\n",
	.run = imex,
};
