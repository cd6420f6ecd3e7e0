/* SPDX-License-Identifier: MIT */
/*
 * The list of nodes and the key of a domain.
 *
 * The list has one address a line, as in nvidia-imex's nodes_config.cfg, with a port if it is not the usual one:
 * `10.0.0.1`, `10.0.0.1:50100`, `fd00::1`, `[fd00::1]:50100`. `#` begins a comment. A node's number is its place in the
 * list, from 1, so all nodes need the same list; each tells the others a check of its own.
 */
#include "base/check.h"
#include "base/descriptor.h"
#include "imexd/imexd.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 256, SENTENCE_BYTES = 512 };

static char sentence[SENTENCE_BYTES];

/* ---- Addresses ---- */

static bool read_port(const char *text, uint16_t *ret_port)
{
	char *end;
	unsigned long port = strtoul(text, &end, 10);

	if (!isdigit((unsigned char)*text) || *end || !port || port > UINT16_MAX)
		return false;
	*ret_port = (uint16_t)port;
	return true;
}

/* One address; the text is changed. */
static bool read_address(char *text, struct cn_imexd_address *ret_address)
{
	uint16_t port = CN_IMEXD_PORT;
	char *colon = strchr(text, ':'), *bracket = strchr(text, ']');
	bool v6 = text[0] == '[' || (colon && strchr(colon + 1, ':'));

	memset(ret_address, 0, sizeof *ret_address);
	if (text[0] == '[') {
		if (!bracket || (bracket[1] && (bracket[1] != ':' || !read_port(bracket + 2, &port))))
			return false;
		*bracket = 0;
		text++;
	} else if (!v6 && colon) {
		if (!read_port(colon + 1, &port))
			return false;
		*colon = 0;
	}
	if (v6) {
		ret_address->v6.sin6_family = AF_INET6;
		ret_address->v6.sin6_port = htons(port);
		ret_address->bytes = sizeof ret_address->v6;
		return inet_pton(AF_INET6, text, &ret_address->v6.sin6_addr) == 1;
	}
	ret_address->v4.sin_family = AF_INET;
	ret_address->v4.sin_port = htons(port);
	ret_address->bytes = sizeof ret_address->v4;
	return inet_pton(AF_INET, text, &ret_address->v4.sin_addr) == 1;
}

/* The same machine, whatever the port. */
bool cn_imexd_is_address(const struct cn_imexd_address *one, const struct cn_imexd_address *other)
{
	if (one->any.sa_family != other->any.sa_family)
		return false;
	if (one->any.sa_family == AF_INET)
		return one->v4.sin_addr.s_addr == other->v4.sin_addr.s_addr;
	return !memcmp(&one->v6.sin6_addr, &other->v6.sin6_addr, sizeof one->v6.sin6_addr);
}

void cn_imexd_address_any_port(struct cn_imexd_address *address)
{
	if (address->any.sa_family == AF_INET)
		address->v4.sin_port = 0;
	else
		address->v6.sin6_port = 0;
}

/* NULL: no interface has this address. */
static const struct ifaddrs *find_interface(const struct ifaddrs *interfaces, const struct cn_imexd_address *address)
{
	for (const struct ifaddrs *one = interfaces; one; one = one->ifa_next) {
		struct cn_imexd_address own = {.bytes = 0};
		if (!one->ifa_addr || one->ifa_addr->sa_family != address->any.sa_family)
			continue;
		memcpy(&own.any, one->ifa_addr, address->bytes);
		if (cn_imexd_is_address(&own, address))
			return one;
	}
	return NULL;
}

bool cn_imexd_is_device_down(const struct cn_imexd_address *address)
{
	struct ifaddrs *interfaces;

	if (getifaddrs(&interfaces))
		return false;
	const struct ifaddrs *one = find_interface(interfaces, address);
	bool is_down = one && !(one->ifa_flags & IFF_RUNNING);
	freeifaddrs(interfaces);
	return is_down;
}

/* ---- The list ---- */

static const char *find_self(const struct cn_imexd_settings *settings)
{
	struct ifaddrs *interfaces;

	if (settings->node > cn_imexd.node_count)
		return "the list of nodes has not so many: see --node";
	cn_imexd.self = settings->node;
	if (cn_imexd.self)
		return NULL;
	if (getifaddrs(&interfaces))
		return "this machine's addresses cannot be read: use --node";
	for (uint32_t i = 1; i <= cn_imexd.node_count && !cn_imexd.self; i++)
		if (find_interface(interfaces, &cn_imexd.nodes[i].address))
			cn_imexd.self = i;
	freeifaddrs(interfaces);
	return cn_imexd.self ? NULL : "none of the nodes has an address of this machine: use --node";
}

static const char *read_line(char *line, unsigned number)
{
	struct cn_imexd_node *node = &cn_imexd.nodes[cn_imexd.node_count + 1];
	char *end = strchr(line, '#'), *start = line;

	if (end)
		*end = 0;
	while (isspace((unsigned char)*start))
		start++;
	end = start + strlen(start);
	while (end > start && isspace((unsigned char)end[-1]))
		*--end = 0;
	if (!*start)
		return NULL;
	if (cn_imexd.node_count == CN_IMEXD_NODES_MAX)
		return "the list has too many nodes";
	if (!read_address(start, &node->address)) {
		snprintf(sentence, sizeof sentence, "line %u of the list is not an address", number);
		return sentence;
	}
	node->number = ++cn_imexd.node_count;
	node->requests.max = CN_IMEXD_REQUESTS_MAX;
	node->watches.max = CN_IMEXD_WATCHES_MAX;
	uint64_t words[5] = {cn_imexd.list_check};
	memcpy(words + 1, &node->address.any, node->address.bytes);
	cn_imexd.list_check = cn_check(words, sizeof words);
	return NULL;
}

const char *cn_imexd_read_nodes(const struct cn_imexd_settings *settings)
{
	char line[LINE_BYTES];
	const char *why = NULL;
	FILE *file = fopen(settings->nodes_path, "re");

	if (!file) {
		snprintf(sentence, sizeof sentence, "%s cannot be read: %s", settings->nodes_path, strerror(errno));
		return sentence;
	}
	cn_imexd.nodes = calloc(CN_IMEXD_NODES_MAX + 2, sizeof *cn_imexd.nodes);
	if (!cn_imexd.nodes)
		why = "no memory for the list of nodes";
	for (unsigned number = 1; !why && fgets(line, sizeof line, file); number++)
		why = read_line(line, number);
	fclose(file);
	if (!why && !cn_imexd.node_count)
		why = "the list of nodes is empty";
	return why ? why : find_self(settings);
}

/* ---- The key ---- */

static int digit(int character)
{
	static const char digits[] = "0123456789abcdef";
	const char *found = character ? strchr(digits, tolower(character)) : NULL;

	return found ? (int)(found - digits) : -1;
}

const char *cn_imexd_read_key(const char *path, unsigned char ret_key[CN_IMEXD_KEY_BYTES_MAX], size_t *ret_bytes)
{
	char text[2 * CN_IMEXD_KEY_BYTES_MAX + 2];
	struct stat status;
	size_t bytes = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &status)) {
		snprintf(sentence, sizeof sentence, "the key %s cannot be read: %s", path, strerror(errno));
		if (fd >= 0)
			close(fd);
		return sentence;
	}
	ssize_t length = read(fd, text, sizeof text - 1);
	close(fd);
	if (status.st_mode & (S_IRWXG | S_IRWXO))
		return "other users may read the key: change its mode to 0600";
	while (length > 0 && isspace((unsigned char)text[length - 1]))
		length--;
	for (; length >= 2 && bytes < CN_IMEXD_KEY_BYTES_MAX && 2 * bytes + 1 < (size_t)length; bytes++) {
		int high = digit(text[2 * bytes]), low = digit(text[2 * bytes + 1]);
		if (high < 0 || low < 0)
			break;
		ret_key[bytes] = (unsigned char)(high << 4 | low);
	}
	explicit_bzero(text, sizeof text);
	if (bytes < CN_IMEXD_KEY_BYTES_MIN || 2 * bytes != (size_t)length)
		return "the key must be 32 to 128 hexadecimal digits (openssl rand -hex 32)";
	*ret_bytes = bytes;
	return NULL;
}
