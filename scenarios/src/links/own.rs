//! An episode's own actors, seen by the desk: each is started with a postman between it and its episode, and can be
//! found to be killed.

use super::postman::Postman;
use crate::desk::Desk;
use crate::fault::Link;
use futures::FutureExt;
use futures::future::BoxFuture;
use legwork_actors::cast::Role;
use legwork_actors::coordinator::{CoordinatorArgs, CoordinatorMsg};
use legwork_actors::episode::EpisodeMsg;
use legwork_actors::worker::{WorkerArgs, WorkerMsg};
use legwork_protocol::id::{EpisodeKey, Scope};
use ractor::{Actor, ActorCell, ActorRef, Message, SpawnErr};
use std::sync::Arc;

/// What an episode's child is given, as far as the desk must know it.
trait ChildArgs: Send + 'static {
    fn who(&self) -> (EpisodeKey, Scope);
    fn tells(&mut self) -> &mut ActorRef<EpisodeMsg>;
}

impl ChildArgs for WorkerArgs {
    fn who(&self) -> (EpisodeKey, Scope) {
        (self.episode.clone(), Scope::Worker(self.worker))
    }

    fn tells(&mut self) -> &mut ActorRef<EpisodeMsg> {
        &mut self.report_to
    }
}

impl ChildArgs for CoordinatorArgs {
    fn who(&self) -> (EpisodeKey, Scope) {
        (self.episode.clone(), Scope::Coordinator)
    }

    fn tells(&mut self) -> &mut ActorRef<EpisodeMsg> {
        &mut self.decide_to
    }
}

struct Watched<A, M: Message> {
    inner: Arc<dyn Role<A, M>>,
    desk: Arc<Desk>,
    link: Link,
}

/// Coordinators under the desk's eyes.
pub(super) fn coordinator(
    inner: Arc<dyn Role<CoordinatorArgs, CoordinatorMsg>>,
    desk: &Arc<Desk>,
) -> Arc<dyn Role<CoordinatorArgs, CoordinatorMsg>> {
    Arc::new(Watched { inner, desk: Arc::clone(desk), link: Link::Decision })
}

/// Workers under the desk's eyes.
pub(super) fn worker(
    inner: Arc<dyn Role<WorkerArgs, WorkerMsg>>,
    desk: &Arc<Desk>,
) -> Arc<dyn Role<WorkerArgs, WorkerMsg>> {
    Arc::new(Watched { inner, desk: Arc::clone(desk), link: Link::Report })
}

impl<A: ChildArgs, M: Message> Role<A, M> for Watched<A, M> {
    fn player(&self) -> &str {
        self.inner.player()
    }

    fn may_rest(&self) -> bool {
        self.inner.may_rest()
    }

    fn start(&self, mut args: A, supervisor: ActorCell) -> BoxFuture<'static, Result<ActorRef<M>, SpawnErr>> {
        let (inner, desk, link) = (Arc::clone(&self.inner), Arc::clone(&self.desk), self.link);
        async move {
            let (episode, scope) = args.who();
            let home = args.tells().clone();
            desk.enters(episode.clone(), Scope::Episode, home.get_cell());
            let postman = Postman { desk: Arc::clone(&desk), link };
            let (postman, _join) = Actor::spawn_linked(None, postman, home, supervisor.clone()).await?;
            // The postman goes with the episode, whose child it is as well.
            *args.tells() = postman;
            let actor = inner.start(args, supervisor).await?;
            desk.enters(episode, scope, actor.get_cell());
            Ok(actor)
        }
        .boxed()
    }
}
