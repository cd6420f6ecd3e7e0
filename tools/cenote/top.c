/* SPDX-License-Identifier: MIT */
/*
 * cenote top: which processes share what, refreshed.
 *
 * It uses the terminal's alternate screen, and restores the terminal however it ends: signals come as reads from a
 * descriptor, and one that ends the program is raised again when the terminal is restored.
 */
#include "survey.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

enum { DELAY_MS = 1000, DELAY_S_MAX = 3600, DEFAULT_ROWS = 24, DEFAULT_COLUMNS = 80 };

struct screen {
	struct termios before; /* as the terminal was */
	sigset_t signals, signals_before;
	int signal_fd;
	int rows, columns;
};

/* ---- The terminal ---- */

static void write_all(const char *text, size_t bytes)
{
	while (bytes) {
		ssize_t written = write(STDOUT_FILENO, text, bytes);
		if (written < 0 && errno != EINTR)
			return; /* the terminal has gone; the signal that says so is on its way */
		text += written > 0 ? written : 0;
		bytes -= written > 0 ? (size_t)written : 0;
	}
}

static void write_text(const char *text)
{
	write_all(text, strlen(text));
}

static void measure(struct screen *screen)
{
	struct winsize size;
	bool known = !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_row && size.ws_col;

	screen->rows = known ? size.ws_row : DEFAULT_ROWS;
	screen->columns = known ? size.ws_col : DEFAULT_COLUMNS;
}

static void enter_screen(struct screen *screen)
{
	struct termios now = screen->before;

	now.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	now.c_cc[VMIN] = 0;
	now.c_cc[VTIME] = 0;
	tcsetattr(STDIN_FILENO, TCSANOW, &now);
	write_text("\033[?1049h\033[?25l"); /* the alternate screen, no cursor */
	measure(screen);
}

static void leave_screen(const struct screen *screen)
{
	write_text("\033[?25h\033[?1049l");
	tcsetattr(STDIN_FILENO, TCSANOW, &screen->before);
}

static bool open_screen(struct screen *ret_screen)
{
	static const int wanted[] = {SIGWINCH, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};
	struct screen screen = {0};

	if (tcgetattr(STDIN_FILENO, &screen.before))
		return false;
	sigemptyset(&screen.signals);
	for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
		sigaddset(&screen.signals, wanted[i]);
	screen.signal_fd = signalfd(-1, &screen.signals, SFD_CLOEXEC);
	if (screen.signal_fd < 0)
		return false;
	sigprocmask(SIG_BLOCK, &screen.signals, &screen.signals_before);
	enter_screen(&screen);
	*ret_screen = screen;
	return true;
}

static void close_screen(struct screen *screen)
{
	leave_screen(screen);
	close(screen->signal_fd);
	sigprocmask(SIG_SETMASK, &screen->signals_before, NULL);
}

/* Stop, as a program that does not handle the signal, and go on when continued. */
static void stop(struct screen *screen)
{
	leave_screen(screen);
	raise(SIGSTOP);
	enter_screen(screen);
}

/* ---- A frame ---- */

/* How many bytes of a line the screen has room for: sequences take none, nor do the later bytes of a character. */
static size_t fitting_bytes(const char *line, size_t length, int columns)
{
	size_t i = 0;

	for (int column = 0; i < length; i++) {
		if (line[i] == '\033') {
			while (i < length && line[i] != 'm')
				i++;
			continue;
		}
		if (((unsigned char)line[i] & 0xc0) == 0x80)
			continue;
		if (column++ == columns)
			break;
	}
	return i;
}

static void print_title(FILE *to)
{
	char clock[16] = "";
	time_t now = time(NULL);
	struct tm local;

	if (localtime_r(&now, &local))
		strftime(clock, sizeof clock, "%H:%M:%S", &local);
	fprintf(to, "%scenote top%s  %s  %sq: quit, space: look now%s\n", style(STYLE_BOLD), style(STYLE_END), clock,
		style(STYLE_DIM), style(STYLE_END));
}

static char *make_frame(const struct screen *screen, const struct survey *survey)
{
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	if (!to)
		return NULL;
	print_title(to);
	survey_print_table(to, survey, screen->columns);
	if (fclose(to)) {
		free(text);
		return NULL;
	}
	return text;
}

/* In one piece, so that nothing flickers. */
static void show_frame(const struct screen *screen, const char *text)
{
	char *frame = NULL;
	size_t bytes;
	FILE *to = open_memstream(&frame, &bytes);

	if (!to)
		return;
	fputs("\033[H", to);
	for (int row = 0; row < screen->rows && *text; row++) {
		size_t length = strcspn(text, "\n"), fitting = fitting_bytes(text, length, screen->columns);
		fprintf(to, "%s%.*s%s\033[K", row ? "\r\n" : "", (int)fitting, text, style(STYLE_END));
		text += length + (text[length] == '\n');
	}
	fputs("\033[J", to);
	if (!fclose(to))
		write_all(frame, bytes);
	free(frame);
}

/* ---- The loop ---- */

enum wish { GO_ON, QUIT, END_BY_SIGNAL };

static enum wish read_keys(void)
{
	char keys[64];
	ssize_t count = read(STDIN_FILENO, keys, sizeof keys);

	if (count < 0 && errno != EINTR && errno != EAGAIN)
		return QUIT; /* no terminal any more */
	for (ssize_t i = 0; i < count; i++)
		if (keys[i] == 'q' || keys[i] == 'Q')
			return QUIT;
	return GO_ON;
}

static enum wish read_signal(struct screen *screen, int *ret_signal)
{
	struct signalfd_siginfo info;

	if (read(screen->signal_fd, &info, sizeof info) != sizeof info)
		return GO_ON;
	if (info.ssi_signo == SIGWINCH) {
		measure(screen);
		return GO_ON;
	}
	if (info.ssi_signo == SIGTSTP) {
		stop(screen);
		return GO_ON;
	}
	*ret_signal = (int)info.ssi_signo;
	return END_BY_SIGNAL;
}

/* Until a key or a signal comes, or the time is over. */
static enum wish wait_for_wish(struct screen *screen, int delay_ms, int *ret_signal)
{
	struct pollfd sources[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = screen->signal_fd, .events = POLLIN}};

	if (poll(sources, 2, delay_ms) <= 0)
		return GO_ON;
	if (sources[1].revents)
		return read_signal(screen, ret_signal);
	if (sources[0].revents & (POLLHUP | POLLERR | POLLNVAL))
		return QUIT;
	return read_keys();
}

static int watch(int delay_ms)
{
	struct screen screen;
	enum wish wish = GO_ON;
	int signal_number = 0;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || !open_screen(&screen)) {
		fputs("cenote top: not a terminal: use cenote top --once, or cenote ps\n", stderr);
		return EXIT_FAILURE;
	}
	bool complete = true, failed = false;
	while (wish == GO_ON && complete) {
		struct survey survey;
		complete = survey_take_all(NULL, &survey);
		char *text = complete ? make_frame(&screen, &survey) : NULL;
		if (text)
			show_frame(&screen, text);
		free(text);
		failed = survey.result != CUDA_SUCCESS;
		survey_free(&survey);
		if (complete)
			wish = wait_for_wish(&screen, delay_ms, &signal_number);
	}
	close_screen(&screen);
	if (!complete) {
		fprintf(stderr, "cenote top: %s\n", failed ? cenote_last_error() : "no memory for all that is shared");
		return EXIT_FAILURE;
	}
	if (wish == END_BY_SIGNAL) {
		signal(signal_number, SIG_DFL);
		raise(signal_number);
	}
	return EXIT_SUCCESS;
}

static int look_once(void)
{
	struct survey survey;
	bool complete = survey_take_all("top", &survey);

	survey_print_table(stdout, &survey, output_columns());
	survey_free(&survey);
	return complete ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Seconds, with a fraction or without; 0: not a valid time. */
static int read_delay(const char *text)
{
	char *end;
	double seconds = strtod(text, &end);

	return *text && !*end && seconds >= 0.1 && seconds <= DELAY_S_MAX ? (int)(seconds * 1000) : 0;
}

static int top(int argument_count, char **arguments)
{
	int delay_ms = DELAY_MS;
	bool once = false;

	for (int i = 1; i < argument_count; i++) {
		if (strcmp(arguments[i], "--once") == 0) {
			once = true;
		} else if (strcmp(arguments[i], "--delay") == 0) {
			delay_ms = i + 1 < argument_count ? read_delay(arguments[++i]) : 0;
			if (!delay_ms)
				return usage_error("top", "--delay takes seconds, 0.1 to 3600");
		} else {
			return refuse_word("top", arguments[i]);
		}
	}
	return once ? look_once() : watch(delay_ms);
}

const struct command command_top = {
	.name = "top",
	.summary = "watch processes that share memory, and the holders",
	.help = "Usage: cenote top [--delay SECONDS] [--once]\n"
		"\n"
		"Shows the table of cenote ps on the whole terminal, and updates it. cenote help ps explains it.\n"
		"A narrow terminal shows fewer columns, down to 60; rows that do not fit are left out.\n"
		"\n"
		"Keys: q quits, space updates now.\n"
		"\n"
		"Options:\n"
		"  --delay SECONDS   time between updates, 0.1 to 3600 (1)\n"
		"  --once            print the table once and exit; no terminal is needed\n"
		"\n"
		"Exit status: 1 if this is not a terminal, or the runtime directory cannot be read.\n",
	.run = top,
};
