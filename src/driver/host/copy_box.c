/* SPDX-License-Identifier: MIT */
/*
 * Copies in two and three dimensions: layers of rows.
 *
 * A side's memory is a box of rows `pitch` bytes apart, with `height` rows in a layer; the copy begins at byte x of row
 * y of layer z. In two dimensions there is one layer. Like the driver, this code ignores the fields for arrays (levels
 * of detail, reserved words) when neither side is an array.
 */
#include "driver/host/copy.h"

/* One side of a description. */
struct side {
	const char *name;
	CUmemorytype type;
	const void *host;
	CUdeviceptr device;
	CUarray array;
	size_t pitch, height;
	size_t x_bytes, y, z;
};

/* Where the rows of a side are. A pitch or a height of 0 means rows and layers without a gap. */
static CUresult find_rows(const struct side *side, size_t row_bytes, size_t row_count, size_t pitch_max,
			  struct cn_rows *ret_rows)
{
	struct cn_rows rows = {.pitch = side->pitch};
	size_t offset, needed, height = side->height;

	switch ((int)side->type) {
	case CU_MEMORYTYPE_HOST:
		rows.side = CN_SIDE_HOST;
		rows.address = (uintptr_t)side->host;
		break;
	case CU_MEMORYTYPE_DEVICE:
		rows.side = CN_SIDE_DEVICE;
		rows.address = side->device;
		break;
	case CU_MEMORYTYPE_UNIFIED:
		rows.side = CN_SIDE_ANY;
		rows.address = side->device;
		break;
	case CU_MEMORYTYPE_ARRAY:
		return cn_error(side->array ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE,
				"the %s is an array: arrays are not supported", side->name);
	default:
		return cn_error(CUDA_ERROR_INVALID_VALUE, "the %s has a memory type of %d", side->name,
				(int)side->type);
	}
	if (__builtin_add_overflow(side->x_bytes, row_bytes, &needed))
		needed = SIZE_MAX;
	if (!side->pitch) /* not in the manual: rows without a gap */
		rows.pitch = needed;
	else if (side->pitch < needed)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "the %s's pitch is %zu, less than a row's end at %zu",
				side->name, side->pitch, needed);
	if (rows.pitch > pitch_max)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "the %s's pitch of %zu is more than %zu", side->name,
				rows.pitch, pitch_max);
	if (!rows.address)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "the %s is NULL", side->name);
	if (__builtin_add_overflow(side->y, row_count, &needed))
		needed = SIZE_MAX;
	if (!height)
		height = needed;
	else if (height < needed)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "the %s's height is %zu, less than its last row, %zu",
				side->name, height, needed);
	if (__builtin_mul_overflow(rows.pitch, height, &rows.layer_pitch)) /* fine for a single layer: see copy.c */
		rows.layer_pitch = SIZE_MAX;
	if (__builtin_mul_overflow(height, side->z, &offset) || __builtin_add_overflow(offset, side->y, &offset) ||
	    __builtin_mul_overflow(rows.pitch, offset, &offset) ||
	    __builtin_add_overflow(offset, side->x_bytes, &offset) ||
	    __builtin_add_overflow(rows.address, offset, &rows.address))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "row %zu of layer %zu of the %s is beyond the last address",
				side->y, side->z, side->name);
	*ret_rows = rows;
	return CUDA_SUCCESS;
}

static CUresult copy_box(const struct cn_place *place, const CUDA_MEMCPY3D *box, size_t pitch_max,
			 enum cn_manner manner)
{
	struct side from = {
		.name = "source",
		.type = box->srcMemoryType,
		.host = box->srcHost,
		.device = box->srcDevice,
		.array = box->srcArray,
		.pitch = box->srcPitch,
		.height = box->srcHeight,
		.x_bytes = box->srcXInBytes,
		.y = box->srcY,
		.z = box->srcZ,
	};
	struct side to = {
		.name = "destination",
		.type = box->dstMemoryType,
		.host = box->dstHost,
		.device = box->dstDevice,
		.array = box->dstArray,
		.pitch = box->dstPitch,
		.height = box->dstHeight,
		.x_bytes = box->dstXInBytes,
		.y = box->dstY,
		.z = box->dstZ,
	};
	struct cn_copy copy = {.row_bytes = box->WidthInBytes, .row_count = box->Height, .layer_count = box->Depth};
	struct cn_point point;
	CUresult result;

	if (!copy.row_bytes || !copy.row_count || !copy.layer_count)
		return CUDA_SUCCESS;
	result = find_rows(&from, copy.row_bytes, copy.row_count, pitch_max, &copy.from);
	if (!result)
		result = find_rows(&to, copy.row_bytes, copy.row_count, pitch_max, &copy.to);
	return result ? result : cn_copy_run(place, &copy, manner, &point);
}

static CUresult begin(const void *description, CUstream handle, struct cn_place *ret_place)
{
	CUresult result = cn_copy_find_stream(handle, ret_place);

	if (!result && !description)
		result = cn_error(CUDA_ERROR_INVALID_VALUE, "pCopy is NULL");
	return result;
}

static CUDA_MEMCPY3D as_box(const CUDA_MEMCPY2D *given)
{
	return (CUDA_MEMCPY3D){
		.srcXInBytes = given->srcXInBytes,
		.srcY = given->srcY,
		.srcMemoryType = given->srcMemoryType,
		.srcHost = given->srcHost,
		.srcDevice = given->srcDevice,
		.srcArray = given->srcArray,
		.srcPitch = given->srcPitch,
		.dstXInBytes = given->dstXInBytes,
		.dstY = given->dstY,
		.dstMemoryType = given->dstMemoryType,
		.dstHost = given->dstHost,
		.dstDevice = given->dstDevice,
		.dstArray = given->dstArray,
		.dstPitch = given->dstPitch,
		.WidthInBytes = given->WidthInBytes,
		.Height = given->Height,
		.Depth = 1,
	};
}

static CUresult copy_2d(const CUDA_MEMCPY2D *description, CUstream handle, enum cn_manner manner)
{
	struct cn_place place;
	int pitch_max = 0;
	CUresult result = begin(description, handle, &place);

	if (result)
		return result;
	CUDA_MEMCPY3D box = as_box(description);
	result = cn_device_ops->attribute(place.context->device, CU_DEVICE_ATTRIBUTE_MAX_PITCH, &pitch_max);
	return result ? result : copy_box(&place, &box, (size_t)pitch_max, manner);
}

static CUresult copy_3d(const CUDA_MEMCPY3D *description, CUstream handle, enum cn_manner manner)
{
	struct cn_place place;
	CUresult result = begin(description, handle, &place);

	if (result)
		return result;
	CUDA_MEMCPY3D box = *description;
	/* The manual has a largest pitch here, too; the driver accepts any. */
	return copy_box(&place, &box, SIZE_MAX, manner);
}

/* ---- The calls ---- */

CN_COPY_TWINS(host_cuMemcpy2D_v2, (const CUDA_MEMCPY2D *copy), copy_2d(copy, stream, CN_MANNER_NOW))

CN_COPY_TWINS(host_cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D *copy), copy_2d(copy, stream, CN_MANNER_NOW))

CUresult host_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream)
{
	return copy_2d(copy, stream, CN_MANNER_IN_STREAM);
}

CN_COPY_TWINS(host_cuMemcpy3D_v2, (const CUDA_MEMCPY3D *copy), copy_3d(copy, stream, CN_MANNER_NOW))

CUresult host_cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *copy, CUstream stream)
{
	return copy_3d(copy, stream, CN_MANNER_IN_STREAM);
}
