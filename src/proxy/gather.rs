//! Pieces of a body collected into one, without a copy while there is only one.

use bytes::{Bytes, BytesMut};

/// What has come so far.
#[derive(Default)]
pub struct Gathered {
    only: Bytes,
    joined: Option<BytesMut>,
    /// Bytes to make room for once there is a second piece.
    expected: usize,
}

impl Gathered {
    /// `expected`: how many bytes there will be, as far as is known. Room is made for them when
    /// the second piece comes, so an announcement alone costs nothing.
    pub fn expecting(expected: usize) -> Self {
        Self { expected, ..Self::default() }
    }

    pub fn len(&self) -> usize {
        self.joined.as_ref().map_or(self.only.len(), BytesMut::len)
    }

    pub fn push(&mut self, piece: Bytes) {
        match &mut self.joined {
            Some(joined) => joined.extend_from_slice(&piece),
            None if self.only.is_empty() => self.only = piece,
            None => {
                let room = self.expected.max(self.only.len() + piece.len());
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
    fn a_single_piece_is_not_copied() {
        let piece = Bytes::from(vec![7; 100]);
        let mut gathered = Gathered::default();
        gathered.push(piece.clone());
        assert_eq!(gathered.into_bytes().as_ptr(), piece.as_ptr());
    }
}
