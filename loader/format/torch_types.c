/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "format/torch.h"

static const struct h2d_torch_dtype dtypes[] = {
	{"float64", "DoubleStorage", 8},
	{"float32", "FloatStorage", 4},
	{"float16", "HalfStorage", 2},
	{"bfloat16", "BFloat16Storage", 2},
	{"int64", "LongStorage", 8},
	{"int32", "IntStorage", 4},
	{"int16", "ShortStorage", 2},
	{"int8", "CharStorage", 1},
	{"uint8", "ByteStorage", 1},
	{"bool", "BoolStorage", 1},
	{"complex128", "ComplexDoubleStorage", 16},
	{"complex64", "ComplexFloatStorage", 8},
	{"complex32", "ComplexHalfStorage", 4},
	{"uint64", "UInt64Storage", 8},
	{"uint32", "UInt32Storage", 4},
	{"uint16", "UInt16Storage", 2},
	{"float8_e4m3fn", "Float8_e4m3fnStorage", 1},
	{"float8_e4m3fnuz", "Float8_e4m3fnuzStorage", 1},
	{"float8_e5m2", "Float8_e5m2Storage", 1},
	{"float8_e5m2fnuz", "Float8_e5m2fnuzStorage", 1},
	{"float8_e8m0fnu", "Float8_e8m0fnuStorage", 1},
	{"float4_e2m1fn_x2", "Float4_e2m1fn_x2Storage", 1}, /* two numbers each */
	{"bits8", "Bits8Storage", 1},
	{"bits16", "Bits16Storage", 2},
	{"bits1x8", "Bits1x8Storage", 1},
	{"bits2x4", "Bits2x4Storage", 1},
	{"bits4x2", "Bits4x2Storage", 1},
	{"quint8", "QUInt8Storage", 0},
	{"qint8", "QInt8Storage", 0},
	{"qint32", "QInt32Storage", 0},
	{"quint4x2", "QUInt4x2Storage", 0},
	{"quint2x4", "QUInt2x4Storage", 0},
	/* Bytes whose dtype the tensor tells; a bare one is shown as bytes. */
	{"uint8", "UntypedStorage", 1},
	{"uint8", "_UntypedStorage", 1},
};

enum { COUNT = sizeof(dtypes) / sizeof(dtypes[0]) };

const struct h2d_torch_dtype *h2d_torch_storage_dtype(const char *storage)
{
	for (unsigned i = 0; i < COUNT; i++)
		if (!strcmp(dtypes[i].storage, storage))
			return &dtypes[i];
	return NULL;
}

const struct h2d_torch_dtype *h2d_torch_dtype(const char *name)
{
	for (unsigned i = 0; i < COUNT; i++)
		if (!strcmp(dtypes[i].name, name))
			return &dtypes[i];
	return NULL;
}
