/* SPDX-License-Identifier: MIT */
/*
 * Copies in three dimensions: layers of rows.
 *
 * A side's memory is a box of rows `pitch` bytes apart, `height` of them a layer; the copy begins at byte x of row y of
 * layer z. What the description has for arrays (levels of detail, reserved words) the driver does not look at when
 * neither side is one, and neither does this.
 */
#include "driver/memory.h"

CUresult cn_copy_3d(const CUDA_MEMCPY3D *description, CUstream handle, enum cn_manner manner)
{
	struct cn_stream *stream;
	CUresult result = cn_copy_find_stream(handle, &stream);

	if (result)
		return result;
	if (!description)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "the description of the copy is NULL");
	CUDA_MEMCPY3D given = *description;
	if (!given.WidthInBytes || !given.Height || !given.Depth)
		return CUDA_SUCCESS;

	struct cn_copy_side from = {
		.name = "source",
		.type = given.srcMemoryType,
		.host = given.srcHost,
		.device = given.srcDevice,
		.array = given.srcArray,
		.pitch = given.srcPitch,
		.height = given.srcHeight,
		.x_bytes = given.srcXInBytes,
		.y = given.srcY,
		.z = given.srcZ,
	};
	struct cn_copy_side to = {
		.name = "destination",
		.type = given.dstMemoryType,
		.host = given.dstHost,
		.device = given.dstDevice,
		.array = given.dstArray,
		.pitch = given.dstPitch,
		.height = given.dstHeight,
		.x_bytes = given.dstXInBytes,
		.y = given.dstY,
		.z = given.dstZ,
	};
	struct cn_copy copy = {
		.row_bytes = given.WidthInBytes,
		.row_count = given.Height,
		.layer_count = given.Depth,
	};
	/* The manual has a largest pitch here, too; the driver takes any. */
	result = cn_copy_find_rows(&from, copy.row_bytes, copy.row_count, SIZE_MAX, &copy.from);
	if (!result)
		result = cn_copy_find_rows(&to, copy.row_bytes, copy.row_count, SIZE_MAX, &copy.to);
	return result ? result : cn_copy(&copy, handle, manner);
}

CN_EXPORT CUresult cuMemcpy3D(const CUDA_MEMCPY3D *copy)
{
	return cn_copy_3d(copy, NULL, CN_NOW);
}

CN_EXPORT CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D *copy, CUstream stream)
{
	return cn_copy_3d(copy, stream, CN_IN_STREAM);
}
