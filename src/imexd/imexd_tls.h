/* SPDX-License-Identifier: MIT */
/*
 * TLS 1.3 with the domain's key, over a connected socket that does not block.
 */
#ifndef CN_IMEXD_IMEXD_TLS_H
#define CN_IMEXD_IMEXD_TLS_H

#include "imexd/imexd.h"

/* NULL, or why it cannot be used. */
const char *cn_imexd_tls_begin(const struct cn_imexd_settings *settings);
void *cn_imexd_tls_open(int fd, bool connects); /* NULL: no memory */
int cn_imexd_tls_shake(void *session);          /* 0: the other side has shown the key; EAGAIN; or errno */
bool cn_imexd_tls_shake_sends(void *session);   /* what cn_imexd_tls_shake() waits for */
/* The number of bytes, or -errno. After -EAGAIN the same must be sent again. */
ssize_t cn_imexd_tls_send(void *session, const void *bytes, size_t count);
ssize_t cn_imexd_tls_receive(void *session, void *ret_bytes, size_t room); /* 0: the end */
void cn_imexd_tls_close(void *session);

#endif
