/* SPDX-License-Identifier: MIT */
/*
 * The names that container managers give to control groups.
 */
#include "harness.h"

#include "container.h"

#define ID  "4f66ad9f3ab2c0aa1c6a9b3e6f0f2fe03f0a1b0ccf4a9d1be4cd9dbe0e4c1a2b"
#define POD "01234567-89ab-cdef-0123-456789abcdef"

static void expect(const char *text, const char *kind, const char *name, const char *pod, const char *shown)
{
	struct container container = container_parse(text);
	char buffer[CONTAINER_TEXT_CHARS];

	ASSERT_STREQ(kind, container.kind);
	ASSERT_STREQ(name, container.name);
	ASSERT_STREQ(pod, container.pod);
	ASSERT_STREQ(shown, container_text(&container, buffer));
}

/* Goal: Docker's, containerd's, CRI-O's, Podman's and Kubernetes' names are known, with systemd and without. */
TEST(containers)
{
	expect("0::/system.slice/docker-" ID ".scope\n", "docker", ID, "", "docker:4f66ad9f3ab2");
	expect("0::/docker/" ID "\n", "docker", ID, "", "docker:4f66ad9f3ab2");
	expect("12:pids:/docker/" ID "\n1:name=systemd:/docker/" ID "\n0::/\n", "docker", ID, "",
	       "docker:4f66ad9f3ab2");
	expect("0::/machine.slice/libpod-" ID ".scope/container\n", "podman", ID, "", "podman:4f66ad9f3ab2");
	expect("0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID ".scope\n", "podman", ID, "",
	       "podman:4f66ad9f3ab2");
	expect("0::/libpod_parent/libpod-" ID "\n", "podman", ID, "", "podman:4f66ad9f3ab2");
	expect("0::/kubepods.slice/kubepods-burstable.slice/"
	       "kubepods-burstable-pod01234567_89ab_cdef_0123_456789abcdef.slice/"
	       "cri-containerd-" ID ".scope\n",
	       "containerd", ID, POD, "pod:01234567:4f66ad9f3ab2");
	expect("0::/kubepods.slice/kubepods-pod01234567_89ab_cdef_0123_456789abcdef.slice/crio-" ID ".scope\n", "cri-o",
	       ID, POD, "pod:01234567:4f66ad9f3ab2");
	expect("0::/kubepods/besteffort/pod" POD "/" ID "\n", "containerd", ID, POD, "pod:01234567:4f66ad9f3ab2");
	expect("0::/default/" ID "\n", "containerd", ID, "", "containerd:4f66ad9f3ab2");
	expect("0::/system.slice/nerdctl-" ID ".scope\n", "containerd", ID, "", "containerd:4f66ad9f3ab2");
	expect("0::/lxc.payload.web\n", "lxc", "web", "", "lxc:web");
	expect("0::/lxc/web\n", "lxc", "web", "", "lxc:web");
	expect("0::/machine.slice/machine-deb12.scope/payload\n", "nspawn", "deb12", "", "nspawn:deb12");
}

/* Goal: the inner container counts; a service in a container is of the container's. */
TEST(containers_in_containers)
{
	expect("0::/docker/0000000000000000000000000000000000000000000000000000000000000000/system.slice/docker-" ID
	       ".scope\n",
	       "docker", ID, "", "docker:4f66ad9f3ab2");
	expect("0::/../docker-" ID ".scope\n", "docker", ID, "", "docker:4f66ad9f3ab2");
	expect("2:cpu:/system.slice/containerd.service\n0::/docker/" ID "\n", "docker", ID, "", "docker:4f66ad9f3ab2");
}

/* Goal: without a container the unit of systemd is shown, if it is a service of its own. */
TEST(units)
{
	expect("0::/system.slice/trainer.service\n", "unit", "trainer.service", "", "unit:trainer.service");
	expect("0::/user.slice/user-1000.slice/user@1000.service/app.slice/reader.service\n", "unit", "reader.service",
	       "", "unit:reader.service");
	expect("0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-terminal.scope\n", "", "", "", "");
	expect("0::/user.slice/user-1000.slice/session-3.scope\n", "", "", "", "");
	expect("0::/\n", "", "", "", "");
	expect("", "", "", "", "");
}

/* Goal: whatever stands there, the answer is short and can be printed. */
TEST(strange_names)
{
	char text[4096];

	expect("0::/\033[2J.service\n", "unit", "?[2J.service", "", "unit:?[2J.service");
	expect("no colons\n0:\n::\n0::\n0:://///\n", "", "", "", "");
	expect("0::/docker/short\n0::/libpod-conmon-" ID ".scope\n", "", "", "", "");
	memset(text, 'a', sizeof text);
	memcpy(text, "0::/", 4);
	memcpy(text + sizeof text - 9, ".service", 9);
	struct container container = container_parse(text);
	ASSERT_STREQ("unit", container.kind);
	ASSERT_EQ(CONTAINER_NAME_CHARS - 1, (int)strlen(container.name));
}

/* Goal: a word means a container by its kind, the beginning of its name, its pod, or what is shown. */
TEST(words_that_mean_a_container)
{
	struct container container = container_parse("0::/kubepods/pod" POD "/" ID "\n"), none = container_parse("");

	ASSERT(container_is(&container, "containerd"));
	ASSERT(container_is(&container, ID));
	ASSERT(container_is(&container, "4f66"));
	ASSERT(container_is(&container, "01234567"));
	ASSERT(container_is(&container, "pod:01234567:4f66ad9f3ab2"));
	ASSERT(!container_is(&container, "docker"));
	ASSERT(!container_is(&container, ""));
	ASSERT(!container_is(&none, ""));
	ASSERT(!container_is(&none, "unit"));
}
