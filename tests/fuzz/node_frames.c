/* SPDX-License-Identifier: MIT */
/*
 * Other nodes at cenote-imexd, and programs of its own node: whatever reaches it.
 *
 * The daemon's parts run here, as node 2 of 4, with a transport of their own (node_channel.c). Nodes call or are
 * called, ask for what this process exports, answer what programs ask or what nobody asked, with any frame and any
 * fields; their bytes come in parts, what is sent to them takes its time, connections end and come again. Programs send
 * any message with any descriptors, lend memory, and leave. The exporter frees blocks and shuts importers out. Time
 * passes when the script says so.
 *
 * After each input all have ended: then nothing is held, every frame was sent or lost once, and no memory was written
 * but what frames and requests have named (node_memory.c).
 */
#include "node.h"

#include "base/check.h"

#include <string.h>

enum {
	SELF = 2,
	STEPS_MAX = 40,
	REQUESTS_MAX = 3,
	WATCHES_MAX = 2,
	FAR_BYTES = 1 << 20, /* of what other nodes have */
};

void fuzz_prepare(void)
{
	static const char nodes[] = "10.9.0.1\n10.9.0.2\n10.9.0.3\n10.9.0.1:50101\n";

	fuzz_start();
	const struct cn_imexd_settings settings = {.node = SELF, .nodes_path = node_list(nodes)};
	node_prepare(&settings);
	for (uint32_t i = 1; i <= cn_imexd.node_count; i++) { /* so that scripts reach them */
		cn_imexd.nodes[i].requests.max = REQUESTS_MAX;
		cn_imexd.nodes[i].watches.max = WATCHES_MAX;
	}
}

/* ---- Nodes ---- */

static struct cn_imexd_channel *any_channel(struct fuzz_input *input)
{
	unsigned wanted = fuzz_byte(input), count = 0;
	struct cn_imexd_channel *found[NODE_CHANNELS_MAX];

	for (unsigned i = 0; i < NODE_CHANNELS_MAX; i++)
		if (node_channels[i])
			found[count++] = node_channels[i];
	return count ? found[wanted % count] : NULL;
}

/* The newest of a node. */
static struct cn_imexd_channel *channel_of(uint32_t node)
{
	struct cn_imexd_channel *found = NULL;

	for (unsigned i = 0; i < NODE_CHANNELS_MAX; i++)
		if (node_channels[i] && node_channels[i]->node == node)
			found = node_channels[i];
	return found;
}

static bool channel_lives(const struct cn_imexd_channel *channel)
{
	for (unsigned i = 0; i < NODE_CHANNELS_MAX; i++)
		if (node_channels[i] == channel)
			return true;
	return false;
}

static void change(struct fuzz_input *input, struct cn_imexd_frame *frame)
{
	switch (fuzz_below(input, 14)) {
	case 0: frame->offset = fuzz_number(input); break;
	case 1: frame->count = fuzz_number(input); break;
	case 2: frame->bytes = (uint32_t)fuzz_number(input); break;
	case 3: frame->flags = (uint32_t)fuzz_number(input); break;
	case 4: frame->value = fuzz_number(input); break;
	case 5: frame->memory = fuzz_number(input); break;
	case 6: frame->memory += fuzz_byte(input) - UINT64_C(128); break;
	case 7: frame->request = fuzz_number(input); break;
	case 8: frame->outcome = (uint16_t)fuzz_number(input); break;
	case 9: frame->kind = (uint16_t)fuzz_below(input, CN_IMEXD_KIND_COUNT + 1); break;
	case 10: frame->bytes += fuzz_byte(input) - 128u; break;
	case 11: frame->offset += fuzz_byte(input) - UINT64_C(128); break;
	case 12: ((unsigned char *)frame)[fuzz_below(input, sizeof *frame)] ^= (unsigned char)fuzz_byte(input); break;
	default: frame->flags ^= 1u << fuzz_below(input, 32); break;
	}
}

/* Change a frame as the script says, and let it begin; its bytes come at once, or when another step says so. */
static void come(struct fuzz_input *input, struct cn_imexd_channel *channel, struct cn_imexd_frame *frame,
		 const unsigned char *payload)
{
	unsigned how = fuzz_byte(input);

	for (unsigned edits = how & 3; edits; edits--)
		change(input, frame);
	int index = node_begin(channel, frame, payload);
	if (index >= 0 && !(how & 4))
		node_deliver(channel, (unsigned)index, SIZE_MAX);
}

static struct cn_imexd_frame hello_of(uint32_t node)
{
	return (struct cn_imexd_frame){.magic = CN_IMEXD_MAGIC,
				       .kind = CN_IMEXD_HELLO,
				       .flags = CN_IMEXD_VERSION,
				       .memory = node,
				       .value = cn_imexd.list_check};
}

static void greet(struct fuzz_input *input)
{
	struct cn_imexd_channel *channel = any_channel(input);

	if (!channel)
		return;
	unsigned how = fuzz_byte(input);
	if (!(how & 8))
		node_open(channel);
	struct cn_imexd_frame hello = hello_of(how & 16 ? how & 7 : channel->node);
	if (!(how & 32))
		come(input, channel, &hello, NULL);
}

static void call(struct fuzz_input *input)
{
	struct cn_imexd_address from = {.bytes = 0};
	unsigned node = fuzz_below(input, 6);

	if (node && node <= cn_imexd.node_count)
		from = cn_imexd.nodes[node].address;
	node_call(&from, node);
}

/* The 64 bytes that a frame may have. */
static void name_object(struct fuzz_input *input, int object, unsigned char ret_name[CN_NODE_HANDLE_BYTES])
{
	unsigned how = fuzz_byte(input);

	memcpy(ret_name, node_name(object), CN_NODE_HANDLE_BYTES);
	if (how & 64) /* any bit */
		ret_name[fuzz_byte(input) % CN_NODE_HANDLE_BYTES] ^= (unsigned char)(1 << fuzz_below(input, 8));
	if (how & 128) /* with a check that is right */
		((struct cn_handle *)(void *)ret_name)->check = cn_check(ret_name, offsetof(struct cn_handle, check));
}

/* A request as one should ask, of a kind. */
static struct cn_imexd_frame ask_for(struct cn_imexd_channel *channel, unsigned kind, unsigned which)
{
	struct cn_imexd_frame frame = {.magic = CN_IMEXD_MAGIC,
				       .kind = (uint16_t)kind,
				       .request = node_request(),
				       .memory = node_number(channel, which, kind == CN_IMEXD_BLOCK),
				       .offset = (which & 7) * 512,
				       .count = 256,
				       .value = 5};

	if (kind == CN_IMEXD_OPEN || kind == CN_IMEXD_BLOCK)
		frame.bytes = CN_NODE_HANDLE_BYTES;
	if (kind == CN_IMEXD_PUT)
		frame.bytes = 512;
	if (kind == CN_IMEXD_FILL || kind == CN_IMEXD_WRITE || kind == CN_IMEXD_WAIT)
		frame.flags = 4;
	return frame;
}

static void open_object(struct fuzz_input *input, struct cn_imexd_channel *channel, int object)
{
	unsigned char name[CN_NODE_HANDLE_BYTES];
	struct cn_imexd_frame frame =
		ask_for(channel, object >= NODE_BLOCKS ? CN_IMEXD_BLOCK : CN_IMEXD_OPEN, fuzz_below(input, 3));

	name_object(input, object, name);
	come(input, channel, &frame, name);
}

static void ask(struct fuzz_input *input)
{
	struct cn_imexd_channel *channel = any_channel(input);
	unsigned how = fuzz_byte(input), kind = CN_IMEXD_PING + how % 10;

	if (!channel)
		return;
	if (kind == CN_IMEXD_OPEN || kind == CN_IMEXD_BLOCK || kind == CN_IMEXD_DONE) {
		open_object(input, channel, (int)(how / 16) % NODE_OBJECTS);
		return;
	}
	struct cn_imexd_frame frame = ask_for(channel, kind, how / 16);
	come(input, channel, &frame, NULL);
}

/* More waits than a node may have. */
static void flood(struct fuzz_input *input)
{
	struct cn_imexd_channel *channel = any_channel(input);

	for (unsigned i = 0; channel && i < NODE_QUESTIONS_MAX && channel_lives(channel); i++) {
		struct cn_imexd_frame wait = ask_for(channel, CN_IMEXD_WAIT, 0);
		node_begin(channel, &wait, NULL);
	}
}

/* The answer that one should give to what the daemon asks. */
static struct cn_imexd_frame answer_to(const struct cn_imexd_frame *asked)
{
	struct cn_imexd_frame answer = {.magic = CN_IMEXD_MAGIC, .kind = CN_IMEXD_DONE, .request = asked->request};

	if (asked->kind == CN_IMEXD_GET)
		answer.bytes = (uint32_t)asked->count;
	if (asked->kind == CN_IMEXD_OPEN || asked->kind == CN_IMEXD_BLOCK) {
		answer.memory = 1 + asked->request;
		answer.count = FAR_BYTES;
	}
	return answer;
}

static void answer(struct fuzz_input *input)
{
	struct cn_imexd_channel *channel = any_channel(input);
	unsigned how = fuzz_byte(input), count;
	struct cn_imexd_frame frame = {.magic = CN_IMEXD_MAGIC, .kind = CN_IMEXD_DONE, .request = how};

	if (!channel)
		return;
	count = channel->asked_count < NODE_QUESTIONS_MAX ? channel->asked_count : NODE_QUESTIONS_MAX;
	if (count) /* the newest first */
		frame = answer_to(&channel->asked[(channel->asked_count - 1 - how % count) % NODE_QUESTIONS_MAX]);
	come(input, channel, &frame, NULL);
}

static void deliver(struct fuzz_input *input)
{
	struct cn_imexd_channel *channel = any_channel(input);
	unsigned how = fuzz_byte(input);

	if (channel)
		node_deliver(channel, how % NODE_FRAMES_MAX, how / 8 % 8 ? how / 8 % 8 * 100 : SIZE_MAX);
}

static void complete(struct fuzz_input *input)
{
	struct cn_imexd_channel *channel = any_channel(input);
	unsigned how = fuzz_byte(input);

	if (channel)
		node_complete(channel, how);
}

/* ---- The script ---- */

static void disturb(struct fuzz_input *input)
{
	static const unsigned times_ms[] = {300, 1100, 2100, 4100, 5100, 12100};
	unsigned how = fuzz_byte(input);
	struct cn_imexd_channel *channel;

	switch (how % 8) {
	case 0:
	case 1: node_skip(times_ms[how / 8 % 6]); break;
	case 2:
		channel = any_channel(input);
		if (channel)
			node_fail(channel);
		break;
	case 3: node_free_block(NODE_BLOCKS + (int)(how / 8) % NODE_BLOCK_COUNT); break;
	case 4: node_evict(); break;
	case 5: node_sends_at_once = how & 8; break;
	case 6:
		if (how == 6 + 8 * 31)
			flood(input);
		node_refuses = how & 8;
		break;
	default: node_await_fetches(); break;
	}
}

static void step(struct fuzz_input *input)
{
	unsigned what = fuzz_byte(input);

	switch (what % 16) {
	case 0: node_turn(); break;
	case 1: call(input); break;
	case 2: greet(input); break;
	case 3:
	case 4:
	case 5: ask(input); break;
	case 6:
	case 7: answer(input); break;
	case 8: deliver(input); break;
	case 9: complete(input); break;
	case 10: disturb(input); break;
	default: node_program_act(input); break;
	}
	if (what & 128)
		node_turn();
}

/* Nothing of the script: what is done as one should. */
static struct fuzz_input none;

/* A caller whose hello is wrong does not come up, and the log has these words. */
static void refuse_hello(uint32_t node, struct cn_imexd_frame hello, const char *logged)
{
	memset(cn_imexd.nodes[node].failures, 0, sizeof cn_imexd.nodes[node].failures);
	*node_log = 0;
	node_call(&cn_imexd.nodes[node].address, node);
	struct cn_imexd_channel *channel = channel_of(node);
	FUZZ_CHECK(channel);
	node_open(channel);
	come(&none, channel, &hello, NULL);
	FUZZ_CHECK(!channel_lives(channel) && !cn_imexd.nodes[node].is_up && strstr(node_log, logged));
}

static void refuse_others(uint32_t node)
{
	struct cn_imexd_frame hello = hello_of(node);

	hello.flags--;
	refuse_hello(node, hello, "has another version");
	hello = hello_of(node);
	hello.value++;
	refuse_hello(node, hello, "has another list");
	hello = hello_of(node);
	hello.count = 1;
	refuse_hello(node, hello, "");
}

static void bring_up(uint32_t node)
{
	struct cn_imexd_frame hello = hello_of(node);

	if (node < SELF) {
		refuse_others(node);
		node_call(&cn_imexd.nodes[node].address, node);
	}
	struct cn_imexd_channel *channel = channel_of(node);
	FUZZ_CHECK(channel);
	node_open(channel);
	come(&none, channel, &hello, NULL);
	FUZZ_CHECK(cn_imexd.nodes[node].is_up);
}

/* Node 1 opens what is exported here. */
static void open_objects(void)
{
	static const int opened[] = {NODE_MEMORY, NODE_POOL, NODE_BLOCKS, NODE_BLOCKS + 1};

	for (unsigned i = 0; i < sizeof opened / sizeof *opened; i++) {
		open_object(&none, channel_of(1), opened[i]);
		node_await_fetches();
	}
	FUZZ_CHECK(cn_imexd.nodes[1].served.count == sizeof opened / sizeof *opened);
}

/* A program with two lanes opens memory, a pool and a block of node 3. */
static void open_imports(void)
{
	node_program_start();
	for (unsigned i = 0; i < 3; i++) {
		struct cn_imexd_channel *channel = channel_of(3);
		node_program_open(&none, i);
		node_turn();
		node_complete(channel, 0);
		struct cn_imexd_frame frame = answer_to(&channel->asked[i]);
		come(&none, channel, &frame, NULL);
	}
	node_program_opened(3);
}

static void begin(unsigned how)
{
	node_sends_at_once = how & 8;
	node_refuses = false;
	node_skip(CN_IMEXD_AGAIN_MS + 2 * CN_IMEXD_TEND_MS);
	node_turn(); /* it connects to those with higher numbers */
	if (!(how & 1))
		bring_up(1);
	if (!(how & 2))
		bring_up(3);
	if (!(how & 1) && !(how & 16))
		open_objects();
	if (!(how & 2) && !(how & 4))
		open_imports();
}

static void end(void)
{
	for (unsigned i = 0; i < NODE_CHANNELS_MAX; i++)
		if (node_channels[i])
			node_fail(node_channels[i]);
	node_refuses = true;
	node_end();
	node_memory_check();
}

void fuzz_one(const uint8_t *bytes, size_t size)
{
	struct fuzz_input input = {bytes, size};

	begin(fuzz_byte(&input));
	for (int i = 0; i < STEPS_MAX && input.left; i++)
		step(&input);
	end();
}
