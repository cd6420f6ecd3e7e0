/* SPDX-License-Identifier: MIT */
/*
 * cenote-imexd and cenote-imexd-ucx: the program. Options, the list of nodes and the key.
 */
#include "base/descriptor.h"
#include "daemon/daemon.h"
#include "imexd/imexd.h"

#include "cenote/cenote.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_USAGE = 2 };

static const char purpose[] =
	"Leads fabric handles to other machines: one daemon a machine, all with the same list of nodes%s.\n"
	"`cenote imex status` shows which nodes are up.\n";
static const char trust[] =
	"\n"
	"It moves data with UCX, which does not authenticate: a stranger that reaches its ports can read and\n"
	"write all that it serves. It is for networks that are trusted. cenote-imexd is safe on any network.\n";
static const char option_of_nodes[] = "  --nodes FILE   addresses of all nodes, one a line (nodes_config.cfg)\n";
static const char option_of_key[] =
	"  --key FILE     the domain's key: 32 to 128 hexadecimal digits, in a file of mode 0600\n";
static const char options_of_all[] =
	"  --node N       which node this is, from 1; else the one that has an address of this machine\n"
	"  --socket PATH  listen there for programs; unless a manager such as systemd hands the socket over\n"
	"  --supervise    start the daemon as a child, and start it again if it ends\n"
	"  --help, --version\n"
	"\n"
	"Without --socket it listens at `imex` in the runtime directory, CENOTE_RUNTIME_DIR. Channels are\n"
	"looked for in CENOTE_IMEX_DIR.\n";

static void show_help(void)
{
	bool has_key = cn_imexd_transport.has_key;

	printf("Usage: %s --nodes FILE %s[OPTION...]\n\n", cn_imexd_transport.program, has_key ? "--key FILE " : "");
	printf(purpose, has_key ? "\nand the same key" : "");
	printf("%s\nOptions:\n%s%s%s", has_key ? "" : trust, option_of_nodes, has_key ? option_of_key : "",
	       options_of_all);
}

static bool read_option(int option, const char *value, struct cn_imexd_settings *settings)
{
	char *end;

	switch (option) {
	case 's': settings->socket_path = value; return value[0] == '/';
	case 'l': settings->nodes_path = value; return true;
	case 'k': settings->key_path = value; return cn_imexd_transport.has_key;
	case 'S': settings->supervise = true; return true;
	case 'n': {
		unsigned long number = strtoul(value, &end, 10);
		settings->node = (uint32_t)number;
		return *value && !*end && number && number <= CN_IMEXD_NODES_MAX;
	}
	default: return false;
	}
}

static int try_help(void)
{
	fprintf(stderr, "Try: %s --help\n", cn_imexd_transport.program);
	return EXIT_USAGE;
}

/* Returns -1, or the exit status: nothing is to be done. */
static int read_options(int argument_count, char **arguments, struct cn_imexd_settings *settings)
{
	static const struct option options[] = {
		{"socket", required_argument, NULL, 's'}, {"nodes", required_argument, NULL, 'l'},
		{"key", required_argument, NULL, 'k'},    {"node", required_argument, NULL, 'n'},
		{"supervise", no_argument, NULL, 'S'},    {"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'v'},      {NULL, 0, NULL, 0},
	};
	int option, index = 0;

	while ((option = getopt_long(argument_count, arguments, "", options, &index)) != -1) {
		if (option == 'h')
			show_help();
		if (option == 'v')
			printf("%s %d.%d.%d\n", cn_imexd_transport.program, CENOTE_VERSION_MAJOR, CENOTE_VERSION_MINOR,
			       CENOTE_VERSION_PATCH);
		if (option == 'h' || option == 'v')
			return EXIT_SUCCESS;
		if (option == '?' || !read_option(option, optarg, settings)) {
			if (option == 'k') /* of a transport that has none */
				fprintf(stderr, "%s: unknown option '--key'\n", cn_imexd_transport.program);
			else if (option != '?')
				fprintf(stderr, "%s: --%s: '%s' cannot be used\n", cn_imexd_transport.program,
					options[index].name, optarg);
			return try_help();
		}
	}
	bool has_key = cn_imexd_transport.has_key;
	if (optind == argument_count && settings->nodes_path && (settings->key_path || !has_key))
		return -1;
	fprintf(stderr, "%s: %s\n", cn_imexd_transport.program,
		optind < argument_count ? "unexpected argument"
		: has_key               ? "--nodes and --key are needed"
					: "--nodes is needed");
	return try_help();
}

static const char *prepare(const struct cn_imexd_settings *settings)
{
	const char *why = cn_imexd_read_nodes(settings);

	return why ? why : cn_imexd_transport.begin(settings);
}

static int serve(const struct cn_imexd_settings *settings, const char *path)
{
	struct cn_daemon_given given;
	int listen_fd, lock_fd = -1;

	if (cn_daemon_take_given(&given)) {
		cn_daemon_log("what the manager handed over cannot be used");
		return EXIT_FAILURE;
	}
	const char *why = prepare(settings);
	listen_fd = cn_daemon_find_socket(&given);
	bool listens = !why && listen_fd < 0;
	if (listens)
		why = cn_daemon_listen(path, &listen_fd, &lock_fd);
	cn_daemon_free_given(&given);
	if (!why && fcntl(listen_fd, F_SETFL, O_RDWR | O_NONBLOCK))
		why = "its socket cannot be used";
	if (why) {
		cn_daemon_log("%s", why);
		return EXIT_FAILURE;
	}
	cn_daemon_raise_limit();
	bool served = cn_imexd_run(listen_fd);
	if (listens)
		cn_daemon_unlisten(path, listen_fd, lock_fd);
	if (served)
		cn_daemon_log("ends as asked");
	return served ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argument_count, char **arguments)
{
	struct cn_imexd_settings settings = {.node = 0};
	char path[PATH_MAX];
	int status = read_options(argument_count, arguments, &settings);

	if (status >= 0)
		return status;
	if (settings.socket_path)
		snprintf(path, sizeof path, "%s", settings.socket_path);
	else if (!cn_daemon_default_path("imex", path))
		return EXIT_FAILURE;
	if (settings.supervise) {
		cn_daemon_drop_option(arguments, "--supervise");
		return cn_daemon_supervise(path, arguments);
	}
	return serve(&settings, path);
}
