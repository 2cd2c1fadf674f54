//! Configuration of one worker, which a reload replaces.

use crate::config::limits::Limits;
use crate::config::listener::Listener;
use crate::config::subnets::Subnets;
use crate::config::Cli;
use crate::content::hosts::VirtualHosts;
use crate::quic::certificate::Certificates;
use crate::quic::controllers::HostControllers;
use crate::quic::quic_lb_set::QuicLbSet;
use crate::quic::secrets::SharedSecrets;
use crate::quic::Transport;
use crate::resume::arm::ArmDraw;
use crate::telemetry::qlog::sampling::QlogSample;

/// Configuration of one worker, from its start or a reload to the next.
pub struct WorkerConfig {
    pub virtual_hosts: VirtualHosts,
    pub transport: Transport,

    /// Configurations of connection IDs.
    pub quic_lb: QuicLbSet,
    pub qlog_sample: QlogSample,
    pub limits: Limits,

    /// Draw of the control group.
    pub arms: ArmDraw,

    /// Clients for which Careful Resume is off.
    pub resume_except: Subnets,
}

impl WorkerConfig {
    /// Returns the configuration of a worker of a listener.
    ///
    /// # Errors
    ///
    /// A certificate or an option cannot be used.
    pub fn new(
        cli: &Cli,
        listener: &Listener,
        virtual_hosts: &VirtualHosts,
        certificates: &Certificates,
        controllers: &HostControllers,
        secrets: &SharedSecrets,
        quic_lb: &QuicLbSet,
    ) -> anyhow::Result<Self> {
        let transport = Transport::new(cli, listener, certificates, controllers, secrets.clone())?;
        Ok(Self {
            virtual_hosts: virtual_hosts.clone(),
            transport,
            quic_lb: quic_lb.clone(),
            qlog_sample: QlogSample::new(cli),
            limits: cli.limits.clone(),
            arms: ArmDraw::new(secrets.clone(), cli.resume_share),
            resume_except: Subnets::new(&cli.resume_except),
        })
    }
}
