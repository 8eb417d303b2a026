/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file kernel_image.h
 * BTF out of the files that distributions ship: kernel images (x86's bzImage, EFI's
 * zboot), vmlinux, modules, any of them compressed, or BTF itself. Decided by content.
 */
#ifndef H2D_ABI_KERNEL_IMAGE_H
#define H2D_ABI_KERNEL_IMAGE_H

#include "signature.h"

/**
 * Read the BTF that a file holds.
 *
 * @param path   e.g. /boot/vmlinuz-…, vmlinux, amdgpu.ko, amdgpu.ko.xz, /sys/kernel/btf/vmlinux
 * @param data   (out) owned by the caller, released with free()
 * @return 0; H2D_E_NOT_FOUND (no file, or no BTF in it), H2D_E_PERMISSION, H2D_E_FORMAT,
 *         H2D_E_IO, H2D_E_NOMEM. At most 512 MiB of file and 1 GiB unpacked are looked at.
 *         @since 0.1
 */
int h2d_kernel_image_btf(const char *path, const struct h2d_log *log, void **data,
			 size_t *bytes);

/**
 * The ELF file inside a file: the file itself, unpacked if it is compressed or a kernel image.
 * Parameters and errors as h2d_kernel_image_btf(). @since 0.1
 */
int h2d_kernel_image_elf(const char *path, const struct h2d_log *log, void **data,
			 size_t *bytes);

/** h2d_signature_find() on an amdgpu module file and a kernel image. @since 0.1 */
int h2d_signature_from_files(const char *module_path, const char *kernel_path,
			     const struct h2d_log *log, struct h2d_signature *out);

#endif
