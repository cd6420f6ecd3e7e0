/* SPDX-License-Identifier: MIT */
/*
 * What a function of functions.h gives, in more bits than double has, and how far a result is from that.
 */
#ifndef CENOTE_TESTS_DEVICE_REFERENCE_H
#define CENOTE_TESTS_DEVICE_REFERENCE_H

/*
 * The error of `result` = function(arguments[0], …, arguments[3]), which takes as many as it has, in units in the last
 * place of the right result, of double or of float. A difference up to `absolute` is none. A large number if one is NaN
 * or infinite and the other is not, or a zero has the wrong sign.
 */
double reference_error(const char *function, int single, const double *arguments, double result, double absolute);

#endif
