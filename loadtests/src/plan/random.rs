//! The Mersenne Twister, drawn from exactly as Python's `random` draws from it, so that an
//! arrival order named by its seed is the same here and in the reference model.
//!
//! Source: Matsumoto and Nishimura, "Mersenne Twister", ACM TOMACS 8 (1998); seeding by array.

const N: usize = 624;
const M: usize = 397;

/// A generator.
#[derive(Clone)]
pub struct Random {
    state: [u32; N],
    at: usize,
}

impl std::fmt::Debug for Random {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Random").field("at", &self.at).finish_non_exhaustive()
    }
}

impl Random {
    /// Seeded as `random.Random(seed)`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let (low, high) = (seed as u32, (seed >> 32) as u32);
        let key: &[u32] = if high == 0 { &[low] } else { &[low, high] };
        let mut state = first(19_650_218);
        let (mut i, mut j) = (1, 0);
        for _ in 0..N {
            let mix = (state[i - 1] ^ (state[i - 1] >> 30)).wrapping_mul(1_664_525);
            state[i] = (state[i] ^ mix).wrapping_add(key[j]).wrapping_add(j as u32);
            step(&mut state, &mut i);
            j = (j + 1) % key.len();
        }
        for _ in 0..N - 1 {
            let mix = (state[i - 1] ^ (state[i - 1] >> 30)).wrapping_mul(1_566_083_941);
            state[i] = (state[i] ^ mix).wrapping_sub(i as u32);
            step(&mut state, &mut i);
        }
        state[0] = 0x8000_0000;
        Self { state, at: N }
    }

    fn next(&mut self) -> u32 {
        if self.at == N {
            self.refill();
        }
        let mut y = self.state[self.at];
        self.at += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    fn refill(&mut self) {
        for i in 0..N {
            let y = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % N] & 0x7fff_ffff);
            let odd = if y & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[i] = self.state[(i + M) % N] ^ (y >> 1) ^ odd;
        }
        self.at = 0;
    }

    /// As `random()`: 0 ≤ x < 1, 53 bits.
    pub fn unit(&mut self) -> f64 {
        let (a, b) = (u64::from(self.next() >> 5), u64::from(self.next() >> 6));
        (a * 67_108_864 + b) as f64 / 9_007_199_254_740_992.0
    }

    /// As `randrange(n)`: 0 ≤ x < n, for n of at least 1.
    pub fn below(&mut self, n: usize) -> usize {
        let bits = (usize::BITS - n.leading_zeros()).clamp(1, 32);
        loop {
            let drawn = (self.next() >> (32 - bits)) as usize;
            if drawn < n.max(1) {
                return drawn;
            }
        }
    }

    /// As `shuffle(items)`.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

fn first(seed: u32) -> [u32; N] {
    let mut state = [seed; N];
    for i in 1..N {
        let mix = state[i - 1] ^ (state[i - 1] >> 30);
        state[i] = mix.wrapping_mul(1_812_433_253).wrapping_add(i as u32);
    }
    state
}

fn step(state: &mut [u32; N], i: &mut usize) {
    *i += 1;
    if *i == N {
        state[0] = state[N - 1];
        *i = 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_as_python_does() {
        let mut r = Random::new(102);
        assert_eq!([r.next(), r.next(), r.next()], PYTHON_102);
        assert!((r.unit() - PYTHON_102_UNIT).abs() < 1e-15);
        assert!((Random::new((1 << 40) + 5).unit() - PYTHON_LARGE_UNIT).abs() < 1e-15);
        let mut r = Random::new(1);
        let picks: String = (0..10).map(|_| ['A', 'B'][r.below(2)]).collect();
        assert_eq!(picks, PYTHON_PICKS);
    }

    const PYTHON_102: [u32; 3] = [636_390_476, 2_904_658_246, 2_645_550_782];
    const PYTHON_102_UNIT: f64 = 0.358_238_489_700_003_05;
    const PYTHON_LARGE_UNIT: f64 = 0.504_380_297_041_844_3;
    const PYTHON_PICKS: &str = "AABABBBBAA";
}
