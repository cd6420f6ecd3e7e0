/* SPDX-License-Identifier: MIT */
/*
 * Chapter "attributes": every device attribute and what this device says.
 *
 * Informative: another device has other values, so compare.py looks at the code alone.
 */
#include "ask.h"

#include "codes.h"

CHAPTER(attributes);

static const struct {
	const char *name;
	CUdevice_attribute attribute;
} attributes[] = {
#define X(name) {#name, name},
	DEVICE_ATTRIBUTES(X)
#undef X
};

GROUP(every_attribute)
{
	NEED(cuInit(0));
	for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++) {
		int value = UNTOUCHED_INT;
		ASK_VALUE(attributes[i].name, cuDeviceGetAttribute(&value, attributes[i].attribute, 0), "%d", value);
	}
}
