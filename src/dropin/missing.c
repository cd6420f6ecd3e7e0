/* SPDX-License-Identifier: MIT */
/*
 * What both drop-ins contain besides the names (see missing.h).
 */
#include "dropin/missing.h"

const char cenote_dropin_mark[] = "this library is Cenote's";

int cn_missing(const char *name)
{
	return CN_REPORT_MISSING(name);
}
