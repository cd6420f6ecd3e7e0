/* SPDX-License-Identifier: MIT */
/*
 * cenoted: the program. Options, and where the listening socket comes from: a manager, or the path that is given.
 */
#include "base/descriptor.h"
#include "daemon/daemon.h"
#include "keeper/keeper.h"
#include "share/wire/closing.h"

#include "cenote/cenote.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>

enum {
	EXIT_USAGE = 2,
	SPARE_DESCRIPTORS = 2048, /* for connections, processes, and what is on its way */
	OBJECTS_DEFAULT = 4096,
	DESCRIPTORS_DEFAULT = 8192,
	HOLDS_DEFAULT = 16384,
	CONNECTIONS_DEFAULT = 128,
};

static const char help[] =
	"Usage: cenoted [OPTION...]\n"
	"\n"
	"Keeps memory by name after the process that made it. Programs use it through cenote_kept_create()\n"
	"and related calls; `cenote kept` lists what is kept.\n"
	"\n"
	"Options:\n"
	"  --socket PATH        listen there; unless a manager such as systemd hands the socket over\n"
	"  --supervise          start the daemon as a child, keep its descriptors, and start it again if it ends\n"
	"  --bytes-max N        memory that a user may have kept; with K, M, G or T (the machine's memory)\n"
	"  --objects-max N      objects that a user may have (4096)\n"
	"  --descriptors-max N  descriptors of these objects (8192)\n"
	"  --help, --version\n"
	"\n"
	"Without --socket it listens at `kept` in the runtime directory, CENOTE_RUNTIME_DIR.\n";

struct settings {
	const char *socket_path;
	bool supervise;
	struct cn_keeper_limits limits;
};

/* ---- Options ---- */

static bool read_number(const char *text, bool scaled, uint64_t most, uint64_t *ret_number)
{
	static const char scales[] = "KMGT";
	char *end;

	errno = 0;
	unsigned long long number = strtoull(text, &end, 10);
	const char *scale = scaled && *end ? strchr(scales, *end) : NULL;
	unsigned shift = scale ? 10u * (unsigned)(scale - scales + 1) : 0;
	if (scale)
		end++;
	if (errno || end == text || *end || *text == '-' || !number || number > most >> shift)
		return false;
	*ret_number = (uint64_t)number << shift;
	return true;
}

static bool read_option(int option, const char *value, struct settings *settings)
{
	uint64_t number = 0;

	switch (option) {
	case 's': settings->socket_path = value; return value[0] == '/';
	case 'S': settings->supervise = true; return true;
	case 'b': return read_number(value, true, UINT64_MAX >> 1, &settings->limits.bytes);
	case 'o':
		if (!read_number(value, false, CN_KEEPER_OBJECTS_MAX, &number))
			return false;
		settings->limits.objects = (uint32_t)number;
		return true;
	case 'd':
		if (!read_number(value, false, CN_KEEPER_SLOTS_MAX, &number))
			return false;
		settings->limits.descriptors = (uint32_t)number;
		return true;
	default: return false;
	}
}

/* Returns -1, or the exit status: nothing is to be done. */
static int read_options(int argument_count, char **arguments, struct settings *settings)
{
	static const struct option options[] = {
		{"socket", required_argument, NULL, 's'},
		{"supervise", no_argument, NULL, 'S'},
		{"bytes-max", required_argument, NULL, 'b'},
		{"objects-max", required_argument, NULL, 'o'},
		{"descriptors-max", required_argument, NULL, 'd'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'v'},
		{NULL, 0, NULL, 0},
	};
	int option, index = 0;

	while ((option = getopt_long(argument_count, arguments, "", options, &index)) != -1) {
		if (option == 'h')
			fputs(help, stdout);
		if (option == 'v')
			printf("cenoted %d.%d.%d\n", CENOTE_VERSION_MAJOR, CENOTE_VERSION_MINOR, CENOTE_VERSION_PATCH);
		if (option == 'h' || option == 'v')
			return EXIT_SUCCESS;
		if (option == '?')
			return EXIT_USAGE;
		if (!read_option(option, optarg, settings)) {
			fprintf(stderr, "cenoted: --%s: '%s' cannot be used\nTry: cenoted --help\n",
				options[index].name, optarg);
			return EXIT_USAGE;
		}
	}
	if (optind == argument_count)
		return -1;
	fprintf(stderr, "cenoted: unexpected argument '%s'\nTry: cenoted --help\n", arguments[optind]);
	return EXIT_USAGE;
}

/* ---- The program ---- */

static int serve(struct cn_keeper *keeper, const struct cn_daemon_given *given)
{
	keeper->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (keeper->epoll_fd < 0 || fcntl(keeper->listen_fd, F_SETFL, O_RDWR | O_NONBLOCK)) {
		cn_daemon_log("cannot begin: %s", strerror(errno));
		return EXIT_FAILURE;
	}
	if (!cn_keeper_start(keeper, given) || !cn_keeper_serve(keeper))
		return EXIT_FAILURE;
	cn_daemon_log("ends as asked");
	return EXIT_SUCCESS;
}

int main(int argument_count, char **arguments)
{
	struct settings settings = {
		.limits =
			{
				.bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE),
				.objects = OBJECTS_DEFAULT,
				.descriptors = DESCRIPTORS_DEFAULT,
				.holds = HOLDS_DEFAULT,
				.connections = CONNECTIONS_DEFAULT,
			},
	};
	static struct cn_keeper keeper;
	struct cn_daemon_given given;
	char path[PATH_MAX];
	int lock_fd = -1, status = read_options(argument_count, arguments, &settings);

	if (status >= 0)
		return status;
	if (settings.socket_path)
		snprintf(path, sizeof path, "%s", settings.socket_path);
	else if (!cn_daemon_default_path("kept", path))
		return EXIT_FAILURE;
	if (settings.supervise) {
		cn_daemon_drop_option(arguments, "--supervise");
		return cn_daemon_supervise(path, arguments);
	}
	prctl(PR_SET_NAME, program_invocation_short_name); /* the parent of --supervise starts /proc/self/exe */
	int error = cn_daemon_take_given(&given);
	if (error) {
		cn_daemon_log("what the manager handed over cannot be used: %s", strerror(error));
		return EXIT_FAILURE;
	}
	cn_daemon_raise_limit();
	keeper.limits = settings.limits;
	keeper.listen_fd = cn_daemon_find_socket(&given);
	bool listens = keeper.listen_fd < 0;
	const char *why = listens ? cn_daemon_listen(path, &keeper.listen_fd, &lock_fd) : NULL;
	if (why) {
		cn_daemon_log("%s: %s", path, why);
		return EXIT_FAILURE;
	}
	status = serve(&keeper, &given);
	cn_daemon_free_given(&given);
	if (listens)
		cn_daemon_unlisten(path, keeper.listen_fd, lock_fd);
	return status;
}
