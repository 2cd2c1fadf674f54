//! Counts of marks on the wire (RFC 9000, 19.3.2). Those of ECT(1) and CE are 0 on
//! most paths: a byte each, which needs no coding.

use super::EcnCounts;
use crate::Result;

impl EcnCounts {
    fn has_ect0_only(&self) -> bool {
        self.ect1_count | self.ecn_ce_count == 0
    }

    pub(super) fn wire_len(&self) -> usize {
        let others = match self.has_ect0_only() {
            true => 2,
            false => {
                octets::varint_len(self.ect1_count)
                    + octets::varint_len(self.ecn_ce_count)
            },
        };
        octets::varint_len(self.ect0_count) + others
    }

    pub(super) fn to_bytes(&self, b: &mut octets::OctetsMut) -> Result<()> {
        b.put_varint(self.ect0_count)?;

        if self.has_ect0_only() {
            b.put_u16(0)?;
        } else {
            b.put_varint(self.ect1_count)?;
            b.put_varint(self.ecn_ce_count)?;
        }

        Ok(())
    }

    pub(super) fn from_bytes(b: &mut octets::Octets) -> Result<Self> {
        let ect0_count = b.get_varint()?;
        let (ect1_count, ecn_ce_count) = match b.as_ref().starts_with(&[0, 0]) {
            true => {
                b.skip(2)?;
                (0, 0)
            },
            false => (b.get_varint()?, b.get_varint()?),
        };

        Ok(EcnCounts {
            ect0_count,
            ect1_count,
            ecn_ce_count,
        })
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
