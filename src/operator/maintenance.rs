//! Implements the interface through which the controller of `NodeMaintenance` resources gets data from the operator.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use osdpl_client::Scope;
use osdpl_core::catalog::Component;
use osdpl_core::maintenance::CloudSettings;
use osdpl_core::observed::Node;
use osdpl_maintenance::Operator;

use crate::controller::Context;

impl Operator for Context {
    fn ready(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.tasks.ready())
    }

    fn setting(&self) -> Option<Arc<CloudSettings>> {
        self.maintenance_setting()
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        let settings = stream::unfold(self.watch_maintenance_setting(), |mut setting| async move {
            setting.changed().await.ok().map(|()| ((), setting))
        });
        stream::select(self.tasks.changes(), settings).boxed()
    }

    fn nodes(&self) -> Option<Arc<BTreeMap<String, Node>>> {
        self.tasks.observe().shared_nodes()
    }

    fn node_selectors(&self, component: &Component) -> Vec<String> {
        let observation = self.tasks.observe();
        let workloads = observation.workloads().iter().filter(|workload| workload.component == *component);
        workloads.map(|workload| workload.node_selector.clone()).collect()
    }

    fn scope(&self) -> Scope {
        self.available_scope()
    }

    fn count_failure(&self) {
        self.metrics.count_maintenance_failure();
    }
}
