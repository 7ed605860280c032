//! Creates the disk image of the test instance.

/// The size of the image in bytes. The content is small, so that every API server accepts it in one request.
const SIZE: usize = 1 << 20;

/// The size of a boot sector in bytes, its last two bytes, and the position of the text in it.
const SECTOR: usize = 512;
const SIGNATURE: [u8; 2] = [0x55, 0xaa];
const TEXT_AT: usize = 48;

/// The text that the program writes to the first serial port. Nova stores it in the log of the instance, and a step of
/// `values/smoke.yaml` looks for it.
const TEXT: &[u8] = b"osdpl smoke: the disk has booted\r\n\0";

/// A program for the real mode of x86 processors. The BIOS loads it to the address 0x7c00.
const PROGRAM: [u8; 34] = [
    0xfc, // cld
    0x31, 0xc0, // xor ax, ax
    0x8e, 0xd8, // mov ds, ax
    0xbe, 0x30, 0x7c, // mov si, 0x7c30: the text
    0xac, // next: lodsb
    0x84, 0xc0, // test al, al
    0x74, 0x12, // jz end
    0x88, 0xc4, // mov ah, al
    0xba, 0xfd, 0x03, // mov dx, 0x3fd: the line status of the first serial port
    0xec, // wait: in al, dx
    0xa8, 0x20, // test al, 0x20: the port can send a byte
    0x74, 0xfb, // jz wait
    0x88, 0xe0, // mov al, ah
    0xba, 0xf8, 0x03, // mov dx, 0x3f8
    0xee, // out dx, al
    0xeb, 0xe9, // jmp next
    0xf4, // end: hlt
    0xeb, 0xfd, // jmp end
];

/// The position of the first partition's entry, and its content.
///
/// Nova refuses a disk that has a boot sector, but no partition (oslo.utils: `imageutils.format_inspector`,
/// `GPTInspector.check_mbr_partitions`). A BIOS boots the disk with any partition.
const PARTITION_AT: usize = 446;
const PARTITION: [u8; 16] = [
    0x80, // the partition is active
    0x00, 0x02, 0x00, // its first sector: head 0, sector 2, cylinder 0
    0x83, // its type: Linux
    0xfe, 0xff, 0xff, // its last sector: too large for this form, so the number of sectors counts
    0x01, 0x00, 0x00, 0x00, // it begins at sector 1
    0xff, 0x07, 0x00, 0x00, // it has 2047 sectors
];

/// Returns the content of the image: a boot sector that writes a text to the first serial port, and an empty
/// partition.
pub(super) fn image() -> Vec<u8> {
    let mut image = vec![0; SIZE];
    image[..PROGRAM.len()].copy_from_slice(&PROGRAM);
    image[TEXT_AT..TEXT_AT + TEXT.len()].copy_from_slice(TEXT);
    image[PARTITION_AT..PARTITION_AT + PARTITION.len()].copy_from_slice(&PARTITION);
    image[SECTOR - SIGNATURE.len()..SECTOR].copy_from_slice(&SIGNATURE);
    image
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partition_fills_the_disk() {
        let image = image();
        let number = |at: usize| u32::from_le_bytes(image[at..at + 4].try_into().unwrap());
        let (first, count) = (number(PARTITION_AT + 8), number(PARTITION_AT + 12));
        assert_eq!((first as usize + count as usize) * SECTOR, image.len());
        assert_eq!(&image[SECTOR - 2..SECTOR], SIGNATURE);
        assert!(image[TEXT_AT..].starts_with(b"osdpl smoke"));
    }
}
