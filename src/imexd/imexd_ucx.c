/* SPDX-License-Identifier: MIT */
/*
 * The transport *ucx*: frames as active messages of UCX, over RDMA or whatever the network has.
 *
 * A frame is the header of a message, and its bytes are the message. Many bytes go by rendezvous: this side says where
 * they belong, and they are written there without a copy, by the network's device if it can.
 *
 * UCX asks no caller for a key, and a stranger that reaches one of its ports can do harm (docs/machines.md). To refuse
 * callers whose address is not listed helps against mistakes alone. So this transport is a program of its own, which
 * has no key in its memory, for networks that are trusted.
 *
 * UCX calls back in the middle of its work, where nothing can be closed. So a callback puts a record into a queue, and
 * flush() does the rest.
 *
 * To close a channel, UCX ends what is under way, and until it has, a device may write: that is awaited. If it takes
 * longer than CLOSE_MS, the daemon ends itself, and with it all that it had under way; its parent starts it again.
 */
#include "daemon/daemon.h"
#include "imexd/imexd.h"

#include "base/container.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <ucp/api/ucp.h>

enum {
	MESSAGE_ID = 1,
	ROUNDS_MAX = 64,
	CALLERS_MAX = 64,
	RENDEZVOUS_BYTES = 32768, /* from so many on; fewer are copied */
	RECEIVES_MAX = 4,         /* of a channel, by rendezvous; further ones wait */
	CLOSE_MS = 2000,
};

struct cn_imexd_channel {
	struct cn_imexd_source source; /* for its burial alone */
	struct cn_imexd_link *link;
	ucp_ep_h endpoint;
	struct cn_imexd_channel *next, *previous;
	unsigned under_way; /* requests that UCX has */
	/*
	 * Frames whose bytes are received, and those that wait for that, the oldest first. All at once would share a
	 * slow network, none would end for seconds, and a ping is behind all of them: the other node would seem to be
	 * silent.
	 */
	unsigned receiving;
	struct arrival *first_waiting, **last_waiting;
	bool is_open;
	const char *failure; /* why it has failed; NULL: it has not */
};

/* A frame that has come: first without its bytes, and then, the same record again, with them. */
struct arrival {
	struct arrival *next;
	struct cn_imexd_channel *channel;
	void *data; /* UCX's: the bytes, or to ask for them with; NULL: there are none, or they were asked for */
	bool is_rendezvous, has_begun;
	struct cn_imexd_receive receive;
};

struct caller {
	struct caller *next;
	ucp_conn_request_h request;
};

static struct {
	ucp_context_h context;
	ucp_worker_h worker;
	ucp_listener_h listener;
	struct cn_imexd_channel *channels; /* the one that was used last first */
	bool is_changed;                   /* a channel is new, or has failed */
	/* Queues, the oldest first. */
	struct caller *first_caller, **last_caller;
	unsigned caller_count;
	struct arrival *first_arrival, **last_arrival;
	struct cn_imexd_send *first_sent, **last_sent;
} ucx;

/* ---- Called by UCX ---- */

static void fail(struct cn_imexd_channel *channel, const char *why)
{
	if (!channel->failure)
		channel->failure = why;
	ucx.is_changed = true;
}

static void on_error(void *object, ucp_ep_h endpoint, ucs_status_t status)
{
	(void)endpoint;
	fail(object, ucs_status_string(status));
}

static void on_call(ucp_conn_request_h request, void *object)
{
	struct caller *caller = ucx.caller_count < CALLERS_MAX ? calloc(1, sizeof *caller) : NULL;

	(void)object;
	if (!caller) {
		ucp_listener_reject(ucx.listener, request);
		return;
	}
	caller->request = request;
	*ucx.last_caller = caller;
	ucx.last_caller = &caller->next;
	ucx.caller_count++;
}

static void queue_sent(struct cn_imexd_send *send)
{
	send->next = NULL;
	*ucx.last_sent = send;
	ucx.last_sent = &send->next;
}

static void on_sent(void *request, ucs_status_t status, void *object)
{
	struct cn_imexd_send *send = object;

	ucp_request_free(request);
	send->channel->under_way--;
	if (status)
		fail(send->channel, ucs_status_string(status));
	queue_sent(send);
}

static void queue_arrival(struct arrival *arrival)
{
	arrival->next = NULL;
	*ucx.last_arrival = arrival;
	ucx.last_arrival = &arrival->next;
}

static void on_bytes(void *request, ucs_status_t status, size_t count, void *object)
{
	struct arrival *arrival = object;

	(void)count;
	ucp_request_free(request);
	arrival->channel->under_way--;
	if (status)
		fail(arrival->channel, ucs_status_string(status));
	queue_arrival(arrival);
}

static void enlist(struct cn_imexd_channel *channel)
{
	channel->previous = NULL;
	channel->next = ucx.channels;
	if (channel->next)
		channel->next->previous = channel;
	ucx.channels = channel;
}

static void delist(struct cn_imexd_channel *channel)
{
	if (channel->next)
		channel->next->previous = channel->previous;
	*(channel->previous ? &channel->previous->next : &ucx.channels) = channel->next;
}

static struct cn_imexd_channel *find_channel(const ucp_am_recv_param_t *about)
{
	struct cn_imexd_channel *channel = ucx.channels;

	if (!(about->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP))
		return NULL;
	while (channel && channel->endpoint != about->reply_ep)
		channel = channel->next;
	if (channel && channel->previous) {
		delist(channel);
		enlist(channel);
	}
	return channel;
}

static ucs_status_t on_frame(void *object, const void *header, size_t header_bytes, void *data, size_t bytes,
			     const ucp_am_recv_param_t *about)
{
	struct cn_imexd_channel *channel = find_channel(about);
	struct arrival *arrival = channel && !channel->failure ? calloc(1, sizeof *arrival) : NULL;

	(void)object;
	if (arrival && header_bytes == sizeof arrival->receive.frame)
		memcpy(&arrival->receive.frame, header, header_bytes); /* which may lie at any address */
	if (!arrival || header_bytes != sizeof arrival->receive.frame || arrival->receive.frame.bytes != bytes) {
		if (channel)
			fail(channel, arrival ? "it broke the protocol" : "no memory");
		free(arrival);
		return UCS_OK;
	}
	arrival->channel = channel;
	arrival->data = bytes ? data : NULL;
	arrival->is_rendezvous = about->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV;
	queue_arrival(arrival);
	return bytes ? UCS_INPROGRESS : UCS_OK;
}

/* ---- Channels ---- */

static void free_channel(struct cn_imexd_source *source)
{
	free(cn_container_of(source, struct cn_imexd_channel, source));
}

/* With the parameters that say whom to reach. NULL: it cannot be made. */
static struct cn_imexd_channel *make(ucp_ep_params_t *parameters)
{
	struct cn_imexd_channel *channel = calloc(1, sizeof *channel);

	if (!channel)
		return NULL;
	channel->source.free = free_channel;
	channel->last_waiting = &channel->first_waiting;
	parameters->field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
	parameters->err_mode = UCP_ERR_HANDLING_MODE_PEER;
	parameters->err_handler = (ucp_err_handler_t){.cb = on_error, .arg = channel};
	if (ucp_ep_create(ucx.worker, parameters, &channel->endpoint)) {
		free(channel);
		return NULL;
	}
	enlist(channel);
	ucx.is_changed = true;
	return channel;
}

static struct cn_imexd_channel *connect_channel(struct cn_imexd_link *link, const struct cn_imexd_address *to)
{
	struct cn_imexd_address own = cn_imexd.nodes[cn_imexd.self].address;
	ucp_ep_params_t parameters = {
		.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR,
		.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
		.sockaddr = {.addr = &to->any, .addrlen = to->bytes},
		.local_sockaddr = {.addr = &own.any, .addrlen = own.bytes},
	};

	cn_imexd_address_any_port(&own);
	if (own.any.sa_family == to->any.sa_family)
		parameters.field_mask |= UCP_EP_PARAM_FIELD_LOCAL_SOCK_ADDR;
	struct cn_imexd_channel *channel = make(&parameters);
	if (channel)
		channel->link = link;
	return channel;
}

static void release_data(struct arrival *arrival)
{
	if (arrival->data)
		ucp_am_data_release(ucx.worker, arrival->data);
	arrival->data = NULL;
}

static void forget(struct arrival *arrival)
{
	release_data(arrival);
	cn_imexd_link_drop(&arrival->receive);
	free(arrival);
}

static void forget_arrivals(const struct cn_imexd_channel *channel)
{
	struct arrival **at = &ucx.first_arrival;

	while (*at) {
		struct arrival *arrival = *at;
		if (arrival->channel != channel) {
			at = &arrival->next;
			continue;
		}
		*at = arrival->next;
		forget(arrival);
	}
	ucx.last_arrival = at;
}

static void forget_waiting(struct cn_imexd_channel *channel)
{
	while (channel->first_waiting) {
		struct arrival *arrival = channel->first_waiting;
		channel->first_waiting = arrival->next;
		forget(arrival);
	}
}

static void lose_sent(const struct cn_imexd_channel *channel)
{
	struct cn_imexd_send **at = &ucx.first_sent, *lost = NULL;

	while (*at) {
		struct cn_imexd_send *send = *at;
		if (send->channel != channel) {
			at = &send->next;
			continue;
		}
		*at = send->next;
		send->next = lost;
		lost = send;
	}
	ucx.last_sent = at;
	while (lost) {
		struct cn_imexd_send *send = lost;
		lost = send->next;
		send->sent(send, true);
	}
}

static void close_channel(struct cn_imexd_channel *channel)
{
	ucp_request_param_t parameters = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
	uint64_t deadline_ns = cn_clock_ns() + CLOSE_MS * CN_MILLISECOND_NS;

	ucs_status_ptr_t closing = ucp_ep_close_nbx(channel->endpoint, &parameters);
	bool is_request = UCS_PTR_IS_PTR(closing);
	while (channel->under_way || (is_request && ucp_request_check_status(closing) == UCS_INPROGRESS)) {
		ucp_worker_progress(ucx.worker);
		if (cn_clock_ns() > deadline_ns) {
			cn_daemon_log(
				"UCX does not end a connection: the daemon ends, for memory could be written late");
			_exit(EXIT_FAILURE);
		}
	}
	if (is_request)
		ucp_request_free(closing);
	delist(channel);
	forget_arrivals(channel);
	forget_waiting(channel);
	lose_sent(channel);
	cn_imexd_bury(&channel->source);
}

/* ---- Frames ---- */

static void send_frame(struct cn_imexd_channel *channel, struct cn_imexd_send *send)
{
	size_t bytes = send->frame.bytes;
	const ucp_request_param_t parameters = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS,
		.flags = UCP_AM_SEND_FLAG_REPLY |
			 (bytes < RENDEZVOUS_BYTES ? UCP_AM_SEND_FLAG_EAGER : UCP_AM_SEND_FLAG_RNDV),
		.cb.send = on_sent,
		.user_data = send,
	};

	send->channel = channel;
	ucs_status_ptr_t request = channel->failure
					   ? UCS_STATUS_PTR(UCS_ERR_CANCELED)
					   : ucp_am_send_nbx(channel->endpoint, MESSAGE_ID, &send->frame,
							     sizeof send->frame, send->payload, bytes, &parameters);
	if (UCS_PTR_IS_PTR(request)) {
		channel->under_way++;
		return;
	}
	if (UCS_PTR_IS_ERR(request))
		fail(channel, ucs_status_string(UCS_PTR_STATUS(request)));
	queue_sent(send);
}

/* Have its bytes, which are on the other node, written to where they belong; then the record comes again. */
static void ask_for_bytes(struct arrival *arrival)
{
	const ucp_request_param_t parameters = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
		.cb.recv_am = on_bytes,
		.user_data = arrival,
	};
	void *data = arrival->data;

	arrival->data = NULL;
	arrival->channel->receiving++;
	ucs_status_ptr_t request = ucp_am_recv_data_nbx(ucx.worker, data, arrival->receive.into,
							arrival->receive.frame.bytes, &parameters);
	if (UCS_PTR_IS_PTR(request)) {
		arrival->channel->under_way++;
		return;
	}
	if (UCS_PTR_IS_ERR(request))
		fail(arrival->channel, ucs_status_string(UCS_PTR_STATUS(request)));
	queue_arrival(arrival);
}

/* The bytes of one are here: another that waits may receive its own. */
static void receive_next(struct cn_imexd_channel *channel)
{
	struct arrival *arrival = channel->first_waiting;

	channel->receiving--;
	if (!arrival)
		return;
	channel->first_waiting = arrival->next;
	if (!channel->first_waiting)
		channel->last_waiting = &channel->first_waiting;
	ask_for_bytes(arrival);
}

static void receive_or_wait(struct arrival *arrival)
{
	struct cn_imexd_channel *channel = arrival->channel;

	if (channel->receiving < RECEIVES_MAX) {
		ask_for_bytes(arrival);
		return;
	}
	arrival->next = NULL;
	*channel->last_waiting = arrival;
	channel->last_waiting = &arrival->next;
}

/* A record of the queue, which it has left. */
static void handle_arrival(struct arrival *arrival)
{
	struct cn_imexd_channel *channel = arrival->channel;

	if (channel->failure) {
		forget(arrival);
		return;
	}
	cn_imexd_link_heard(channel->link);
	if (arrival->has_begun) {
		receive_next(channel);
	} else {
		arrival->has_begun = true;
		if (!cn_imexd_link_begin(channel->link, &arrival->receive)) {
			forget(arrival);
			return;
		}
		bool is_wanted = arrival->data && arrival->receive.into;
		if (is_wanted && arrival->is_rendezvous) {
			receive_or_wait(arrival);
			return;
		}
		/* Not by ucp_am_recv_data_nbx(): after the callback it does not free bytes that are here. */
		if (is_wanted)
			memcpy(arrival->receive.into, arrival->data, arrival->receive.frame.bytes);
	}
	cn_imexd_link_finish(channel->link, &arrival->receive);
	forget(arrival);
}

/* ---- The loop ---- */

static void admit(ucp_conn_request_h request)
{
	ucp_conn_request_attr_t about = {.field_mask = UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR};
	ucp_ep_params_t parameters = {.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST, .conn_request = request};
	struct cn_imexd_address from = {.bytes = sizeof(struct sockaddr_in6)};
	struct cn_imexd_node *node = NULL;

	if (!ucp_conn_request_query(request, &about)) {
		memcpy(&from.any, &about.client_address, from.bytes);
		node = cn_imexd_link_admit(&from);
	}
	if (!node) {
		ucp_listener_reject(ucx.listener, request);
		return;
	}
	struct cn_imexd_channel *channel = make(&parameters);
	if (!channel)
		return;
	channel->link = cn_imexd_link_called(node, channel);
	if (!channel->link)
		close_channel(channel);
}

/* Those that are new can be sent to at once: UCX sends when they are connected. Those that have failed end. */
static void look_at_channels(void)
{
	ucx.is_changed = false;
	for (struct cn_imexd_channel *channel = ucx.channels; channel;) {
		if (channel->is_open && !channel->failure) {
			channel = channel->next;
			continue;
		}
		channel->is_open = true;
		if (channel->failure)
			cn_imexd_link_fail(channel->link, channel->failure);
		else
			cn_imexd_link_open(channel->link);
		channel = ucx.channels; /* others may have ended with it */
	}
}

static void admit_next(void)
{
	struct caller *caller = ucx.first_caller;

	ucx.first_caller = caller->next;
	if (!ucx.first_caller)
		ucx.last_caller = &ucx.first_caller;
	ucx.caller_count--;
	admit(caller->request);
	free(caller);
}

static void tell_next_sent(void)
{
	struct cn_imexd_send *send = ucx.first_sent;

	ucx.first_sent = send->next;
	if (!ucx.first_sent)
		ucx.last_sent = &ucx.first_sent;
	send->sent(send, send->channel->failure);
}

static void handle_next_arrival(void)
{
	struct arrival *arrival = ucx.first_arrival;

	ucx.first_arrival = arrival->next;
	if (!ucx.first_arrival)
		ucx.last_arrival = &ucx.first_arrival;
	handle_arrival(arrival);
}

/*
 * Handle one of what callbacks have queued; false: there is nothing. Each may close a channel, which lets UCX go on,
 * and so a channel that is new may have a frame at once: it is opened before that.
 */
static bool handle_next(void)
{
	if (ucx.is_changed)
		look_at_channels();
	else if (ucx.first_caller)
		admit_next();
	else if (ucx.first_sent)
		tell_next_sent();
	else if (ucx.first_arrival)
		handle_next_arrival();
	else
		return false;
	return true;
}

static bool flush(void)
{
	bool has_worked = false, works = true;

	for (int round = 0; works && round < ROUNDS_MAX; round++) {
		works = ucp_worker_progress(ucx.worker);
		while (handle_next())
			works = true;
		has_worked = has_worked || works;
	}
	/* What it has done may have made something due. Else UCX says when to come again, or that it is due now. */
	return has_worked || ucp_worker_arm(ucx.worker);
}

static void worker_ready(struct cn_imexd_source *source, uint32_t events)
{
	(void)source; /* flush() comes next */
	(void)events;
}

static bool start(void)
{
	static struct cn_imexd_source source = {.ready = worker_ready};
	int fd;

	return !ucp_worker_get_efd(ucx.worker, &fd) && cn_imexd_watch(fd, &source, EPOLLIN);
}

/* ---- Beginning ---- */

static bool make_context(void)
{
	const ucp_params_t parameters = {.field_mask = UCP_PARAM_FIELD_FEATURES,
					 .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP};
	ucp_config_t *config;

	/*
	 * UCX is set by its own variables; these are what we want unless the user has set them. Nodes are other
	 * machines, so shared memory reaches none. An address can be listened at again right after a daemon has ended.
	 */
	setenv("UCX_TLS", "^shm", 0);
	setenv("UCX_CM_REUSEADDR", "y", 0);
	if (ucp_config_read(NULL, NULL, &config))
		return false;
	bool made = !ucp_init(&parameters, config, &ucx.context);
	ucp_config_release(config);
	return made;
}

static const char *make_worker(void)
{
	const struct cn_imexd_address *own = &cn_imexd.nodes[cn_imexd.self].address;
	const ucp_worker_params_t parameters = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
						.thread_mode = UCS_THREAD_MODE_SINGLE};
	const ucp_am_handler_param_t handler = {
		.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
			      UCP_AM_HANDLER_PARAM_FIELD_CB,
		.id = MESSAGE_ID,
		.flags = UCP_AM_FLAG_PERSISTENT_DATA,
		.cb = on_frame,
	};
	const ucp_listener_params_t listener = {
		.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
		.sockaddr = {.addr = &own->any, .addrlen = own->bytes},
		.conn_handler.cb = on_call,
	};

	if (!make_context() || ucp_worker_create(ucx.context, &parameters, &ucx.worker) ||
	    ucp_worker_set_am_recv_handler(ucx.worker, &handler))
		return "UCX cannot be used";
	if (ucp_listener_create(ucx.worker, &listener, &ucx.listener))
		return "this node's address cannot be listened at";
	return NULL;
}

static const char *begin(const struct cn_imexd_settings *settings)
{
	sigset_t all, before;

	(void)settings;
	/* UCX looks for devices once: one that comes up later is refused, and this node would never be connected. */
	if (cn_imexd_is_device_down(&cn_imexd.nodes[cn_imexd.self].address))
		return "the network device of this node's address is not up";
	ucx.last_caller = &ucx.first_caller;
	ucx.last_arrival = &ucx.first_arrival;
	ucx.last_sent = &ucx.first_sent;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before); /* threads of UCX take no signals of ours */
	const char *why = make_worker();
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return why;
}

const struct cn_imexd_transport cn_imexd_transport = {
	.name = "ucx",
	.program = "cenote-imexd-ucx",
	.begin = begin,
	.start = start,
	.connect = connect_channel,
	.send = send_frame,
	.flush = flush,
	.close = close_channel,
};
