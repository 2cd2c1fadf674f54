//! Draw of a client's arm in the comparison of Careful Resume with slow start (`--resume-share`).
//!
//! The arm follows from the client and a key alone, so that every worker, process and server with
//! the same secrets draws the same one, on each of the client's connections. It is independent of
//! all else that depends on the address: a hash with a key of its own gives no part of its output
//! to the choice of worker, server or store, nor to the sample for qlog.

use std::net::IpAddr;

use ab_test::Arm;
use ab_test::ClientUnit;
use ring::hmac;

use crate::quic::secrets::SharedSecrets;

/// Draws arms.
#[derive(Clone)]
pub struct ArmDraw {
    secrets: SharedSecrets,

    /// Share of clients in [`Arm::Resume`], from 0 to 1.
    share: f64,
}

impl ArmDraw {
    pub fn new(secrets: SharedSecrets, share: f64) -> Self {
        Self { secrets, share }
    }

    /// Returns the arm of a client, or `None` if nothing is compared because all may jump.
    ///
    /// A larger share moves clients from control to resume, and none the other way.
    pub fn draw(&self, client: IpAddr) -> Option<Arm> {
        if self.share >= 1.0 {
            return None;
        }
        let secrets = self.secrets.get();
        let is_resume = fraction(secrets.arm_key(), ClientUnit::of(client)) < self.share;
        Some(if is_resume { Arm::Resume } else { Arm::Control })
    }
}

/// Returns a number from 0 to below 1 that is uniform over clients.
fn fraction(key: &hmac::Key, client: ClientUnit) -> f64 {
    let tag = client.with_bytes(|bytes| hmac::sign(key, bytes));
    let bits = tag.as_ref().first_chunk().copied().map_or(0, u64::from_be_bytes);
    // As many bits as the mantissa has.
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quic::secrets;
    use crate::quic::secrets::tests::shared;
    use crate::quic::secrets::tests::ONE;
    use crate::quic::secrets::tests::OTHER;
    use std::net::Ipv4Addr;

    fn clients(count: u32) -> impl Iterator<Item = IpAddr> {
        (0..count).map(|i| Ipv4Addr::from_bits(0x0a00_0000 + i).into())
    }

    fn arms(draw: &ArmDraw, count: u32) -> Vec<Option<Arm>> {
        clients(count).map(|client| draw.draw(client)).collect()
    }

    fn share_of(arms: impl IntoIterator<Item = Option<Arm>>) -> f64 {
        let (mut resume, mut all) = (0.0, 0.0);
        for arm in arms {
            all += 1.0;
            resume += f64::from(u8::from(arm == Some(Arm::Resume)));
        }
        resume / all
    }

    #[test]
    fn drawn_share_matches_option() {
        for share in [0.0, 0.1, 0.5, 0.9] {
            let drawn = share_of(arms(&ArmDraw::new(shared(&[ONE]), share), 10_000));
            // Four standard deviations.
            assert!((drawn - share).abs() <= 4.0 * (share * (1.0 - share) / 1e4).sqrt(), "{drawn}");
        }
        assert!(arms(&ArmDraw::new(shared(&[ONE]), 1.0), 9).iter().all(Option::is_none));
    }

    #[test]
    fn servers_with_the_same_secret_draw_the_same_arm() {
        let arms = |lines: &[&str]| arms(&ArmDraw::new(shared(lines), 0.5), 1000);
        assert_eq!(arms(&[ONE]), arms(&[ONE, OTHER]));
        assert_ne!(arms(&[ONE]), arms(&[OTHER]));
    }

    // A process without --secrets has a random secret.
    #[test]
    fn arm_without_secrets_outlives_the_process() {
        let arms = || arms(&ArmDraw::new(secrets::open(None).unwrap(), 0.5), 1000);
        assert_eq!(arms(), arms());
    }

    #[test]
    fn larger_share_moves_clients_to_resume_only() {
        let arms = |share| arms(&ArmDraw::new(shared(&[ONE]), share), 1000);
        let moved: Vec<_> = arms(0.5)
            .into_iter()
            .zip(arms(0.6))
            .filter(|(before, after)| before != after)
            .collect();
        assert!(moved.len() > 50, "{}", moved.len());
        assert!(moved.iter().all(|(_, after)| *after == Some(Arm::Resume)));
    }

    // Neighbours, bits of the address, and what a balancer may choose a server by.
    #[test]
    fn arm_is_independent_of_address_bits() {
        let draw = ArmDraw::new(shared(&[ONE]), 0.5);
        let arms: Vec<_> = clients(1 << 14).map(|client| (client, draw.draw(client))).collect();
        for bit in 0..14 {
            let set = arms.iter().filter(|(client, _)| match client {
                IpAddr::V4(v4) => v4.to_bits() >> bit & 1 == 1,
                IpAddr::V6(_) => false,
            });
            let share = share_of(set.map(|(_, arm)| *arm));
            // Four standard deviations of half of the clients.
            assert!(
                (share - 0.5).abs() < 4.0 * 0.5 / f64::from(1 << 13).sqrt(),
                "bit {bit}: {share}"
            );
        }
    }

    #[test]
    fn addresses_of_one_client_have_one_arm() {
        let draw = ArmDraw::new(shared(&[ONE]), 0.5);
        let arm = |address: String| draw.draw(address.parse().unwrap());
        for i in 0..100 {
            assert_eq!(arm(format!("2001:db8:0:{i}::1")), arm(format!("2001:db8:0:{i}:2:3:4:5")));
            assert_eq!(arm(format!("192.0.2.{i}")), arm(format!("::ffff:192.0.2.{i}")));
        }
    }
}
