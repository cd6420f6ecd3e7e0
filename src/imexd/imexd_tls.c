/* SPDX-License-Identifier: MIT */
/*
 * TLS 1.3 with the domain's key, by GnuTLS.
 *
 * Both sides show that they have the key, and each connection has keys of its own (ECDHE), so one that is recorded
 * cannot be read with the domain's key later. There are no certificates, no tickets, and no other version or cipher.
 */
#include "imexd/imexd_tls.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <stdlib.h>
#include <string.h>

static const char identity[] = "cenote-imex";
static const char priority[] = "NONE:+VERS-TLS1.3:+ECDHE-PSK:+AES-256-GCM:+AES-128-GCM:+CHACHA20-POLY1305:+AEAD:"
			       "+GROUP-X25519:+GROUP-SECP256R1:+SIGN-ALL";

static struct {
	gnutls_psk_client_credentials_t client;
	gnutls_psk_server_credentials_t server;
	gnutls_priority_t priority;
	gnutls_datum_t key;
	unsigned char key_bytes[CN_IMEXD_KEY_BYTES_MAX];
} tls;

static int give_key(gnutls_session_t session, const char *name, gnutls_datum_t *ret_key)
{
	(void)session;
	if (strcmp(name, identity) != 0)
		return -1;
	ret_key->data = gnutls_malloc(tls.key.size);
	if (!ret_key->data)
		return -1;
	memcpy(ret_key->data, tls.key.data, tls.key.size);
	ret_key->size = tls.key.size;
	return 0;
}

const char *cn_imexd_tls_begin(const struct cn_imexd_settings *settings)
{
	size_t bytes;
	const char *why = cn_imexd_read_key(settings->key_path, tls.key_bytes, &bytes);

	if (why)
		return why;
	tls.key = (gnutls_datum_t){.data = tls.key_bytes, .size = (unsigned)bytes};
	if (gnutls_global_init() || gnutls_psk_allocate_client_credentials(&tls.client) ||
	    gnutls_psk_allocate_server_credentials(&tls.server) ||
	    gnutls_psk_set_client_credentials(tls.client, identity, &tls.key, GNUTLS_PSK_KEY_RAW) ||
	    gnutls_priority_init(&tls.priority, priority, NULL))
		return "GnuTLS cannot be used";
	gnutls_psk_set_server_credentials_function(tls.server, give_key);
	return NULL;
}

void *cn_imexd_tls_open(int fd, bool connects)
{
	gnutls_session_t session;
	unsigned flags =
		(connects ? GNUTLS_CLIENT : GNUTLS_SERVER) | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL | GNUTLS_NO_TICKETS;

	if (gnutls_init(&session, flags))
		return NULL;
	if (gnutls_priority_set(session, tls.priority) ||
	    gnutls_credentials_set(session, GNUTLS_CRD_PSK, connects ? (void *)tls.client : (void *)tls.server)) {
		gnutls_deinit(session);
		return NULL;
	}
	gnutls_transport_set_int(session, fd);
	return session;
}

int cn_imexd_tls_shake(void *session)
{
	int result = gnutls_handshake(session);

	if (!result)
		return 0;
	return result == GNUTLS_E_AGAIN || result == GNUTLS_E_INTERRUPTED || !gnutls_error_is_fatal(result) ? EAGAIN
													    : EPROTO;
}

bool cn_imexd_tls_shake_sends(void *session)
{
	return gnutls_record_get_direction(session) == 1;
}

static ssize_t error_of(ssize_t result)
{
	return result == GNUTLS_E_AGAIN || result == GNUTLS_E_INTERRUPTED ? -EAGAIN : -EPROTO;
}

ssize_t cn_imexd_tls_send(void *session, const void *bytes, size_t count)
{
	ssize_t result = gnutls_record_send(session, bytes, count);

	return result >= 0 ? result : error_of(result);
}

ssize_t cn_imexd_tls_receive(void *session, void *ret_bytes, size_t room)
{
	ssize_t result = gnutls_record_recv(session, ret_bytes, room);

	return result >= 0 ? result : error_of(result);
}

void cn_imexd_tls_close(void *session)
{
	gnutls_deinit(session);
}
