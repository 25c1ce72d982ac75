//! Pieces of a body collected into one, without a copy while there is only one.

use bytes::{Bytes, BytesMut};

/// What has come so far.
#[derive(Default)]
pub struct Gathered {
    only: Bytes,
    joined: Option<BytesMut>,
    /// Bytes for which room is made at last.
    expected: usize,
}

impl Gathered {
    /// `expected`: how many bytes there will be, as far as is known. Room grows with what has come,
    /// to twice as much at most, so an announcement alone costs nothing.
    pub fn expecting(expected: usize) -> Self {
        Self { expected, ..Self::default() }
    }

    pub fn len(&self) -> usize {
        self.joined.as_ref().map_or(self.only.len(), BytesMut::len)
    }

    pub fn push(&mut self, piece: Bytes) {
        let whole = self.len() + piece.len();
        let room = whole.max(self.expected.min(2 * whole));
        match &mut self.joined {
            Some(joined) => {
                if whole > joined.capacity() {
                    joined.reserve(room - joined.len());
                }
                joined.extend_from_slice(&piece);
            }
            None if self.only.is_empty() => self.only = piece,
            None => {
                let joined = self.joined.insert(BytesMut::with_capacity(room));
                joined.extend_from_slice(&self.only);
                joined.extend_from_slice(&piece);
            }
        }
    }

    pub fn into_bytes(self) -> Bytes {
        self.joined.map_or(self.only, BytesMut::freeze)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_out_in_order() {
        let mut gathered = Gathered::expecting(2);
        assert_eq!(gathered.len(), 0);
        for (piece, length) in [("", 0), ("ab", 2), ("", 2), ("c", 3), ("def", 6)] {
            gathered.push(Bytes::from_static(piece.as_bytes()));
            assert_eq!(gathered.len(), length);
        }
        assert_eq!(gathered.into_bytes(), "abcdef");
        assert_eq!(Gathered::default().into_bytes(), "");
    }

    #[test]
    fn room_follows_what_has_come_and_not_what_was_announced() {
        let mut gathered = Gathered::expecting(1 << 30);
        for n in 1..=64 {
            gathered.push(Bytes::from(vec![7; 1000]));
            let room = gathered.joined.as_ref().map_or(0, BytesMut::capacity);
            assert!(room <= 2 * 1000 * n, "{room} for {n}000");
        }
        let mut exact = Gathered::expecting(3000);
        (0..3).for_each(|_| exact.push(Bytes::from(vec![7; 1000])));
        assert_eq!(exact.joined.map(|joined| joined.capacity()), Some(3000));
    }

    #[test]
    fn a_single_piece_is_not_copied() {
        let piece = Bytes::from(vec![7; 100]);
        let mut gathered = Gathered::default();
        gathered.push(piece.clone());
        assert_eq!(gathered.into_bytes().as_ptr(), piece.as_ptr());
    }
}
