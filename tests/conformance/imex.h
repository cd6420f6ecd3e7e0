/* SPDX-License-Identifier: MIT */
/*
 * IMEX channels that come and go, for the chapter about fabric handles.
 *
 * A channel is a device node for NVIDIA's driver, which the program makes and removes where it runs as root, and a file
 * in CENOTE_IMEX_DIR for Cenote's host device. Where a second user is asked about, root becomes one; any other user
 * stays itself, with a directory of its own for each role. Nodes that were there before are never touched.
 */
#ifndef CONFORMANCE_IMEX_H
#define CONFORMANCE_IMEX_H

#include "ask.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define NODES "/dev/nvidia-caps-imex-channels"

enum {
	FIRST_USER = 61000, /* no real user, where it matters */
	EXPORTER = 0,
	IMPORTER = 1,
};

static struct {
	char base[32]; /* has the directories of the host device's channels */
	pid_t questioner;
	unsigned int major; /* of channel nodes, or 0: none can be made */
	bool directory_was; /* NODES was there before us */
	bool can_become;    /* the user is root, and other users exist */
	bool channels_were; /* and not empty: nothing there is touched */
} place;

static inline const char *path_of(const char *directory, const char *name)
{
	return ask_name("%s/%s%s%s", place.base, directory, *name ? "/" : "", name);
}

static inline int entries_of(const char *directory, bool remove)
{
	DIR *stream = opendir(directory);
	int count = 0;

	for (struct dirent *entry; stream && (entry = readdir(stream));) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		count++;
		if (remove && unlinkat(dirfd(stream), entry->d_name, 0) && errno == EISDIR)
			unlinkat(dirfd(stream), entry->d_name, AT_REMOVEDIR);
	}
	if (stream)
		closedir(stream);
	return count;
}

static inline void channels_clear(void)
{
	static const char *const directories[] = {"with", "role0", "role1"};

	for (size_t i = 0; i < 3; i++)
		entries_of(path_of(directories[i], ""), true);
	if (place.major && !place.channels_were)
		entries_of(NODES, true);
}

/* Before any group: what is there that is not ours? */
__attribute__((constructor)) static void places_make(void)
{
	static const char *const directories[] = {"none", "with", "role0", "role1"};
	const char *device = getenv("CENOTE_DEVICE");
	FILE *list = fopen("/proc/devices", "re");
	char line[128];

	place.questioner = getpid();
	while (list && fgets(line, sizeof line, list)) {
		char *name = strstr(line, "nvidia-caps-imex-channels");
		if (name && geteuid() == 0 && !(device && strcmp(device, "host") == 0))
			place.major = (unsigned int)strtoul(line, NULL, 10);
	}
	if (list)
		fclose(list);
	place.directory_was = access(NODES, F_OK) == 0;
	place.channels_were = entries_of(NODES, false) > 0;
	strcpy(place.base, "/tmp/cenote-fabric-XXXXXX");
	if (!mkdtemp(place.base) || chmod(place.base, 0755))
		exit(2);
	for (size_t i = 0; i < 4; i++) {
		if (mkdir(path_of(directories[i], ""), 0755))
			exit(2);
	}
	place.can_become = geteuid() == 0 && chown(path_of("role1", ""), FIRST_USER, FIRST_USER) == 0;
}

__attribute__((destructor)) static void places_remove(void)
{
	static const char *const directories[] = {"none", "with", "role0", "role1"};

	if (getpid() != place.questioner)
		return;
	channels_clear();
	for (size_t i = 0; i < 4; i++)
		rmdir(path_of(directories[i], ""));
	rmdir(place.base);
	if (place.major && !place.directory_was)
		rmdir(NODES);
}

static inline const char *node_of(const char *name)
{
	return ask_name(NODES "/%s", name);
}

/* A channel that `user` has, or everyone where it is 0. */
static inline void channel_make(const char *name, unsigned int number, mode_t mode, uid_t user)
{
	const char *file = path_of("with", name), *node = node_of(name);

	int descriptor = open(file, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	if (descriptor < 0 || fchmod(descriptor, mode) || (user && fchown(descriptor, user, user)))
		_exit(2);
	close(descriptor);
	if (!place.major || place.channels_were)
		return;
	mkdir(NODES, 0755);
	if (mknod(node, S_IFCHR | 0600, makedev(place.major, number)) || chmod(node, mode) ||
	    (user && chown(node, user, user)))
		fprintf(stderr, "fabric: %s: %s\n", node, strerror(errno));
}

static inline void look_in(const char *directory)
{
	setenv("CENOTE_IMEX_DIR", path_of(directory, ""), 1);
}

static inline void without(void)
{
	look_in("none");
}

static inline void with(void)
{
	channels_clear();
	channel_make("channel0", 0, 0666, 0);
	look_in("with");
}

/* From here on the process is another user, where it can be. The tests' driver may lie where only root may look. */
static inline void become(int role)
{
	uid_t user = (uid_t)(FIRST_USER + role);
	const char *driver = getenv("CENOTE_LIBCUDA");

	if (place.can_become && driver && !dlopen(driver, RTLD_NOW))
		_exit(2);
	if (place.can_become && (setgroups(0, NULL) || setgid(user) || setuid(user)))
		_exit(2);
	if (place.can_become)
		unsetenv("CENOTE_RUNTIME_DIR"); /* it belongs to the first user */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_DUMPABLE, 1); /* what it opens in /proc/self is its own again */
}

/* Channel `number` for the roles whose bits are set. */
static inline void channel_for(unsigned int number, bool of_exporter, bool of_importer)
{
	const char *name = ask_name("channel%u", number);

	if (!of_exporter && !of_importer)
		return;
	bool both = of_exporter && of_importer;
	channel_make(name, number, both ? 0666 : 0600,
		     both || !place.can_become ? 0 : (uid_t)(FIRST_USER + (of_importer ? IMPORTER : EXPORTER)));
	if ((of_exporter && link(path_of("with", name), path_of("role0", name))) ||
	    (of_importer && link(path_of("with", name), path_of("role1", name))))
		_exit(2);
}

#endif
