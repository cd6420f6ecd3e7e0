/* SPDX-License-Identifier: MIT */
/*
 * Chapter "device": cuInit, finding devices, asking them about themselves, and their primary contexts.
 */
#include "ask.h"

CHAPTER(device);

GROUP(init)
{
	int count = UNTOUCHED_INT, version = UNTOUCHED_INT;

	ASK_VALUE("count_before_init", cuDeviceGetCount(&count), "%d", count);
	ASK("version_before_init", cuDriverGetVersion(&version));
	SAY("version_before_init_is_13", "%s", ask_yes(version >= 13000 && version < 14000));
	ASK("version_null", cuDriverGetVersion(NULL));
	ASK("init_flags_1", cuInit(1));
	ASK("init_flags_all", cuInit(~0u));
	ASK_VALUE("count_after_failed_init", cuDeviceGetCount(&count), "%d", count);
	ASK("init", cuInit(0));
	ASK("init_again", cuInit(0));
	ASK("init_again_flags_1", cuInit(1));
	ASK_VALUE("count", cuDeviceGetCount(&count), "%s", ask_yes(count >= 1));
	ASK("count_null", cuDeviceGetCount(NULL));
	ASK("version_null_after_init", cuDriverGetVersion(NULL));
}

GROUP(get)
{
	CUdevice device = UNTOUCHED_INT;
	int count = 0;

	NEED(cuInit(0));
	NEED(cuDeviceGetCount(&count));
	ASK_VALUE("get_0", cuDeviceGet(&device, 0), "%d", device);
	device = UNTOUCHED_INT;
	ASK_VALUE("get_count", cuDeviceGet(&device, count), "%d", device);
	ASK_VALUE("get_negative", cuDeviceGet(&device, -1), "%d", device);
	ASK_VALUE("get_many", cuDeviceGet(&device, 1 << 20), "%d", device);
	ASK("get_null", cuDeviceGet(NULL, 0));
	ASK("get_null_negative", cuDeviceGet(NULL, -1));
}

GROUP(name)
{
	char name[256];
	size_t length;

	NEED(cuInit(0));
	memset(name, '#', sizeof name);
	ASK("name", cuDeviceGetName(name, sizeof name, 0));
	length = strnlen(name, sizeof name);
	SAY("name_has_text", "%s", ask_yes(length > 0 && length < sizeof name));
	SAY("name_byte_after_end", "%s", name[length + 1] == '#' ? "untouched" : "written");
	memset(name, '#', sizeof name);
	ASK("name_len_4", cuDeviceGetName(name, 4, 0));
	SAY("name_len_4_terminated_at", "%zu", strnlen(name, sizeof name));
	memset(name, '#', sizeof name);
	ASK_VALUE("name_len_1", cuDeviceGetName(name, 1, 0), "%s", ask_bytes(name, 2));
	memset(name, '#', sizeof name);
	ASK_VALUE("name_len_0", cuDeviceGetName(name, 0, 0), "%s", ask_bytes(name, 2));
	ASK_VALUE("name_len_negative", cuDeviceGetName(name, -1, 0), "%s", ask_bytes(name, 2));
	ASK("name_null", cuDeviceGetName(NULL, 16, 0));
	ASK("name_null_len_0", cuDeviceGetName(NULL, 0, 0));
	ASK_VALUE("name_device_negative", cuDeviceGetName(name, 16, -1), "%s", ask_bytes(name, 2));
	ASK_VALUE("name_device_many", cuDeviceGetName(name, 16, 1000), "%s", ask_bytes(name, 2));
	ASK_VALUE("name_device_invalid", cuDeviceGetName(name, 16, CU_DEVICE_INVALID), "%s", ask_bytes(name, 2));
}

GROUP(identity)
{
	CUuuid uuid = {{0}}, zero = {{0}}, again = {{0}};
	size_t bytes = UNTOUCHED_INT;
	char luid[8] = "#######";
	unsigned int mask = UNTOUCHED_INT;

	NEED(cuInit(0));
	ASK_VALUE("uuid", cuDeviceGetUuid(&uuid, 0), "%s", ask_yes(memcmp(&uuid, &zero, sizeof uuid) != 0));
	ASK_VALUE("uuid_same_again", cuDeviceGetUuid(&again, 0), "%s", ask_yes(!memcmp(&uuid, &again, sizeof uuid)));
	ASK("uuid_null", cuDeviceGetUuid(NULL, 0));
	ASK("uuid_device_many", cuDeviceGetUuid(&again, 1000));
	ASK("uuid_device_negative", cuDeviceGetUuid(&again, -1));
	SAY("uuid_after_failure", "%s", ask_yes(!memcmp(&uuid, &again, sizeof uuid)));
	ASK_VALUE("total", cuDeviceTotalMem(&bytes, 0), "%s", ask_yes(bytes > 1 << 20));
	ASK("total_null", cuDeviceTotalMem(NULL, 0));
	bytes = UNTOUCHED_INT;
	ASK_VALUE("total_device_many", cuDeviceTotalMem(&bytes, 1000), "%zu", bytes);
	ASK_VALUE("total_device_negative", cuDeviceTotalMem(&bytes, -1), "%zu", bytes);
	ASK_VALUE("luid", cuDeviceGetLuid(luid, &mask, 0), "%s %u", ask_bytes(luid, 8), mask);
	ASK("luid_null", cuDeviceGetLuid(NULL, &mask, 0));
	ASK("luid_mask_null", cuDeviceGetLuid(luid, NULL, 0));
	ASK("luid_device_many", cuDeviceGetLuid(luid, &mask, 1000));
}

GROUP(pci)
{
	char id[64], upper[64];
	CUdevice device = UNTOUCHED_INT;

	NEED(cuInit(0));
	memset(id, '#', sizeof id);
	ASK_VALUE("pci_id", cuDeviceGetPCIBusId(id, sizeof id, 0), "length %zu", strnlen(id, sizeof id));
	SAY("pci_id_separators", "%c %c %c", id[4], id[7], id[10]);
	ASK_VALUE("pci_id_back", cuDeviceGetByPCIBusId(&device, id), "%d", device);
	device = UNTOUCHED_INT;
	ASK_VALUE("pci_id_back_without_domain",
		  cuDeviceGetByPCIBusId(&device, strlen(id) > 5 && id[0] == '0' && id[3] == '0' ? id + 5 : id), "%d",
		  device);
	for (size_t i = 0; i < sizeof upper; i++)
		upper[i] = id[i] >= 'a' && id[i] <= 'z' ? (char)(id[i] - 32) : id[i];
	SAY("pci_id_is_upper_case", "%s", ask_yes(strcmp(id, upper) == 0));
	device = UNTOUCHED_INT;
	ASK_VALUE("pci_id_back_upper_case", cuDeviceGetByPCIBusId(&device, upper), "%d", device);
	memset(upper, '#', sizeof upper);
	ASK_VALUE("pci_id_len_13", cuDeviceGetPCIBusId(upper, 13, 0), "length %zu", strnlen(upper, sizeof upper));
	memset(upper, '#', sizeof upper);
	ASK_VALUE("pci_id_len_12", cuDeviceGetPCIBusId(upper, 12, 0), "length %zu", strnlen(upper, sizeof upper));
	memset(upper, '#', sizeof upper);
	ASK_VALUE("pci_id_len_5", cuDeviceGetPCIBusId(upper, 5, 0), "length %zu", strnlen(upper, sizeof upper));
	memset(upper, '#', sizeof upper);
	ASK_VALUE("pci_id_len_1", cuDeviceGetPCIBusId(upper, 1, 0), "%s", ask_bytes(upper, 2));
	memset(upper, '#', sizeof upper);
	ASK_VALUE("pci_id_len_0", cuDeviceGetPCIBusId(upper, 0, 0), "%s", ask_bytes(upper, 2));
	ASK("pci_id_len_negative", cuDeviceGetPCIBusId(upper, -1, 0));
	ASK("pci_id_null", cuDeviceGetPCIBusId(NULL, 13, 0));
	ASK("pci_id_device_many", cuDeviceGetPCIBusId(upper, 13, 1000));
	device = UNTOUCHED_INT;
	ASK_VALUE("by_pci_id_absent", cuDeviceGetByPCIBusId(&device, "fffe:fe:1e.0"), "%d", device);
	ASK_VALUE("by_pci_id_empty", cuDeviceGetByPCIBusId(&device, ""), "%d", device);
	ASK_VALUE("by_pci_id_words", cuDeviceGetByPCIBusId(&device, "not a bus id"), "%d", device);
	ASK("by_pci_id_null", cuDeviceGetByPCIBusId(&device, NULL));
	ASK("by_pci_id_null_out", cuDeviceGetByPCIBusId(NULL, id));
}

GROUP(attribute)
{
	int value = UNTOUCHED_INT;

	NEED(cuInit(0));
	ASK("attribute_null", cuDeviceGetAttribute(NULL, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
	ASK_VALUE("attribute_0", cuDeviceGetAttribute(&value, (CUdevice_attribute)0, 0), "%d", value);
	ASK_VALUE("attribute_max", cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX, 0), "%d", value);
	ASK_VALUE("attribute_100000", cuDeviceGetAttribute(&value, (CUdevice_attribute)100000, 0), "%d", value);
	ASK_VALUE("attribute_negative", cuDeviceGetAttribute(&value, (CUdevice_attribute)-1, 0), "%d", value);
	ASK_VALUE("attribute_device_many", cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 1000), "%d",
		  value);
	ASK_VALUE("attribute_device_negative", cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, -1), "%d",
		  value);
	ASK_VALUE("attribute_device_cpu", cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, CU_DEVICE_CPU),
		  "%d", value);
}

GROUP(peers)
{
	int value = UNTOUCHED_INT;

	NEED(cuInit(0));
	ASK_VALUE("peer_of_itself", cuDeviceCanAccessPeer(&value, 0, 0), "%d", value);
	value = UNTOUCHED_INT;
	ASK("peer_null", cuDeviceCanAccessPeer(NULL, 0, 0));
	ASK_VALUE("peer_device_many", cuDeviceCanAccessPeer(&value, 1000, 0), "%d", value);
	ASK_VALUE("peer_peer_many", cuDeviceCanAccessPeer(&value, 0, 1000), "%d", value);
	ASK_VALUE("peer_negative", cuDeviceCanAccessPeer(&value, -1, -1), "%d", value);
	for (int attribute = 0; attribute <= 6; attribute++) {
		value = UNTOUCHED_INT;
		ASK_VALUE(ask_name("p2p_attribute_%d_of_itself", attribute),
			  cuDeviceGetP2PAttribute(&value, (CUdevice_P2PAttribute)attribute, 0, 0), "%d", value);
	}
	ASK_VALUE("p2p_attribute_device_many",
		  cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1000), "%d", value);
	ASK("p2p_attribute_null", cuDeviceGetP2PAttribute(NULL, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0));
}

static void say_state(const char *when)
{
	unsigned int flags = UNTOUCHED_INT;
	int active = UNTOUCHED_INT;

	ASK_VALUE(ask_name("primary_state_%s", when), cuDevicePrimaryCtxGetState(0, &flags, &active),
		  "flags %u active %d", flags, active);
}

GROUP(primary)
{
	CUcontext first = UNTOUCHED(CUcontext), second = UNTOUCHED(CUcontext), current = NULL;

	NEED(cuInit(0));
	say_state("at_first");
	ASK("primary_release_unretained", cuDevicePrimaryCtxRelease(0));
	ASK("primary_reset_unretained", cuDevicePrimaryCtxReset(0));
	say_state("after_reset_unretained");
	ASK_VALUE("primary_retain", cuDevicePrimaryCtxRetain(&first, 0), "%s", OUT(first));
	say_state("after_retain");
	ASK_VALUE("primary_retain_is_not_current", cuCtxGetCurrent(&current), "%s", OUT(current));
	ASK_VALUE("primary_retain_again", cuDevicePrimaryCtxRetain(&second, 0), "%s", ask_yes(first == second));
	ASK("primary_release", cuDevicePrimaryCtxRelease(0));
	say_state("after_one_release");
	ASK("primary_release_last", cuDevicePrimaryCtxRelease(0));
	say_state("after_last_release");
	ASK("primary_release_too_often", cuDevicePrimaryCtxRelease(0));
	ASK("primary_set_current_released", cuCtxSetCurrent(first));
	second = UNTOUCHED(CUcontext);
	ASK_VALUE("primary_retain_anew", cuDevicePrimaryCtxRetain(&second, 0), "%s", OUT(second));
	say_state("after_retain_anew");
	ASK("primary_destroy", cuCtxDestroy(second));
	say_state("after_destroy");
}

GROUP(primary_flags)
{
	CUcontext context = NULL;
	unsigned int flags = UNTOUCHED_INT;

	NEED(cuInit(0));
	ASK("primary_set_flags_inactive", cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_YIELD));
	say_state("flags_yield_inactive");
	NEED(cuDevicePrimaryCtxRetain(&context, 0));
	say_state("flags_yield_active");
	ASK("primary_set_flags_active", cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_BLOCKING_SYNC));
	say_state("flags_blocking_active");
	NEED(cuCtxSetCurrent(context));
	ASK_VALUE("primary_ctx_flags", cuCtxGetFlags(&flags), "%u", flags);
	ASK("primary_set_flags_same_active", cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_YIELD));
	for (unsigned int bit = 0; bit < 10; bit++) {
		ASK(ask_name("primary_set_flags_bit_%u", bit), cuDevicePrimaryCtxSetFlags(0, 1u << bit));
		say_state(ask_name("flags_bit_%u", bit));
	}
	ASK("primary_set_flags_3", cuDevicePrimaryCtxSetFlags(0, 3));
	ASK("primary_set_flags_7", cuDevicePrimaryCtxSetFlags(0, 7));
	ASK("primary_set_flags_all", cuDevicePrimaryCtxSetFlags(0, ~0u));
	NEED(cuDevicePrimaryCtxRelease(0));
	say_state("flags_after_release");
}

GROUP(primary_reset)
{
	CUcontext context = NULL, again = NULL;
	CUdeviceptr memory = 0;
	CUstream stream = NULL;
	unsigned int version = UNTOUCHED_INT;

	NEED(cuInit(0));
	NEED(cuDevicePrimaryCtxRetain(&context, 0));
	NEED(cuDevicePrimaryCtxRetain(&context, 0));
	NEED(cuCtxSetCurrent(context));
	NEED(cuMemAlloc(&memory, 4096));
	NEED(cuStreamCreate(&stream, 0));
	ASK("primary_reset_retained", cuDevicePrimaryCtxReset(0));
	say_state("after_reset");
	ASK_VALUE("primary_reset_current", cuCtxGetCurrent(&again), "%s", ask_yes(again == context));
	ASK("primary_reset_alloc", cuMemAlloc(&memory, 4096));
	ASK("primary_reset_synchronize", cuCtxSynchronize());
	ASK("primary_reset_api_version", cuCtxGetApiVersion(context, &version));
	ASK("primary_reset_free_old", cuMemFree(memory));
	ASK("primary_reset_release", cuDevicePrimaryCtxRelease(0));
	again = NULL;
	ASK_VALUE("primary_reset_retain", cuDevicePrimaryCtxRetain(&again, 0), "%s", ask_yes(again == context));
	say_state("after_reset_and_retain");
	ASK("primary_reset_alloc_after_retain", cuMemAlloc(&memory, 4096));
	ASK("primary_reset_stream_after_retain", cuStreamQuery(stream));
}

GROUP(primary_wrong)
{
	CUcontext context = UNTOUCHED(CUcontext);
	unsigned int flags = UNTOUCHED_INT;
	int active = UNTOUCHED_INT;

	NEED(cuInit(0));
	ASK("primary_retain_null", cuDevicePrimaryCtxRetain(NULL, 0));
	say_state("after_retain_null");
	ASK_VALUE("primary_retain_device_many", cuDevicePrimaryCtxRetain(&context, 1000), "%s", OUT(context));
	ASK_VALUE("primary_retain_device_negative", cuDevicePrimaryCtxRetain(&context, -1), "%s", OUT(context));
	ASK("primary_release_device_many", cuDevicePrimaryCtxRelease(1000));
	ASK("primary_reset_device_many", cuDevicePrimaryCtxReset(1000));
	ASK("primary_set_flags_device_many", cuDevicePrimaryCtxSetFlags(1000, 0));
	ASK_VALUE("primary_state_device_many", cuDevicePrimaryCtxGetState(1000, &flags, &active), "%u %d", flags,
		  active);
	ASK_VALUE("primary_state_null_flags", cuDevicePrimaryCtxGetState(0, NULL, &active), "%d", active);
	ASK_VALUE("primary_state_null_active", cuDevicePrimaryCtxGetState(0, &flags, NULL), "%u", flags);
	ASK("primary_state_null_both", cuDevicePrimaryCtxGetState(0, NULL, NULL));
}
