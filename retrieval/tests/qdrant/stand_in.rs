//! A server in this process that speaks Qdrant's gRPC and answers as Qdrant does, by plain loops over maps.
//! It writes down what it was asked. Calls that the client of this house never makes are unimplemented.

use qdrant_client::qdrant;
use qdrant_client::qdrant::collections_server::{Collections, CollectionsServer};
use qdrant_client::qdrant::points_server::{Points, PointsServer};
use qdrant_client::qdrant::{
    BatchResult, CollectionConfig, CollectionExists, CollectionInfo, CollectionParams, Condition, CountResult, Filter,
    PointId, PointStruct, RetrievedPoint, ScoredPoint, VectorParams, VectorsConfig, condition, point_id, query, value,
    vector, vector_input, vectors, vectors_config,
};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

/// A running stand-in.
pub(crate) struct StandIn {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
    stop: tokio::sync::oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

/// What it was asked.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    /// The key of each call.
    pub(crate) keys: Vec<Option<String>>,
    /// Beam and exactness of each query.
    pub(crate) beams: Vec<(Option<u64>, Option<bool>)>,
    /// Points written.
    pub(crate) upserted: usize,
    upserts: usize,
}

#[derive(Default)]
struct State {
    collections: BTreeMap<String, Stored>,
    seen: Seen,
    upserts_allowed: Option<usize>,
}

struct Stored {
    params: VectorParams,
    points: BTreeMap<String, PointStruct>,
}

impl StandIn {
    pub(crate) async fn start() -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let url = format!("http://{}", incoming.local_addr().unwrap());
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let service = || Service(Arc::clone(&state));
        let server = Server::builder()
            .add_service(CollectionsServer::new(service()))
            .add_service(PointsServer::new(service()).max_decoding_message_size(usize::MAX))
            .serve_with_incoming_shutdown(incoming, async { drop(stopped.await) });
        let task = tokio::spawn(async { server.await.unwrap() });
        Self { url, state, stop, task }
    }

    /// Ends the server; afterwards nothing listens at its address.
    pub(crate) async fn stop(self) {
        drop(self.stop);
        self.task.await.unwrap();
    }

    pub(crate) fn seen(&self) -> Seen {
        self.state.lock().unwrap().seen.clone()
    }

    /// After so many upserts the server says that it is unavailable.
    pub(crate) fn fail_upserts_after(&self, upserts: usize) {
        self.state.lock().unwrap().upserts_allowed = Some(upserts);
    }

    /// Puts in a point that this house did not write.
    pub(crate) fn add_foreign_point(&self, collection: &str) {
        let point = PointStruct::new(1_u64, vec![1.0_f32; 4], qdrant_client::Payload::default());
        self.state.lock().unwrap().collections.get_mut(collection).unwrap().points.insert("1".into(), point);
    }
}

struct Service(Arc<Mutex<State>>);

type Answer<T> = Pin<Box<dyn Future<Output = Result<Response<T>, Status>> + Send>>;

/// Writes the methods of a service: those with an answer call it, the others are unimplemented.
macro_rules! methods {
    ($($name:ident($request:ident) -> $response:ident $(= $answer:expr)?;)*) => {$(
        fn $name<'a, 't>(&'a self, request: Request<qdrant::$request>) -> Answer<qdrant::$response>
        where
            'a: 't,
            Self: 't,
        {
            let answer = methods!(@answer self, request, $name $(, $answer)?);
            Box::pin(std::future::ready(answer.map(Response::new)))
        }
    )*};
    (@answer $self:ident, $request:ident, $name:ident) => {{
        drop($request);
        Err(Status::unimplemented(stringify!($name)))
    }};
    (@answer $self:ident, $request:ident, $name:ident, $answer:expr) => {{
        let mut state = $self.0.lock().unwrap();
        let key = $request.metadata().get("api-key").map(|key| key.to_str().unwrap().to_owned());
        state.seen.keys.push(key);
        $answer(&mut *state, $request.into_inner())
    }};
}

impl Collections for Service {
    methods! {
        get(GetCollectionInfoRequest) -> GetCollectionInfoResponse = State::info;
        create(CreateCollection) -> CollectionOperationResponse = State::create;
        delete(DeleteCollection) -> CollectionOperationResponse = State::delete;
        collection_exists(CollectionExistsRequest) -> CollectionExistsResponse = State::exists;
        list(ListCollectionsRequest) -> ListCollectionsResponse;
        update(UpdateCollection) -> CollectionOperationResponse;
        update_aliases(ChangeAliases) -> CollectionOperationResponse;
        list_collection_aliases(ListCollectionAliasesRequest) -> ListAliasesResponse;
        list_aliases(ListAliasesRequest) -> ListAliasesResponse;
        collection_cluster_info(CollectionClusterInfoRequest) -> CollectionClusterInfoResponse;
        update_collection_cluster_setup(UpdateCollectionClusterSetupRequest) -> UpdateCollectionClusterSetupResponse;
        create_shard_key(CreateShardKeyRequest) -> CreateShardKeyResponse;
        delete_shard_key(DeleteShardKeyRequest) -> DeleteShardKeyResponse;
        list_shard_keys(ListShardKeysRequest) -> ListShardKeysResponse;
    }
}

impl Points for Service {
    methods! {
        upsert(UpsertPoints) -> PointsOperationResponse = State::upsert;
        get(GetPoints) -> GetResponse = State::get;
        count(CountPoints) -> CountResponse = State::count;
        query_batch(QueryBatchPoints) -> QueryBatchResponse = State::query_batch;
        delete(DeletePoints) -> PointsOperationResponse;
        update_vectors(UpdatePointVectors) -> PointsOperationResponse;
        delete_vectors(DeletePointVectors) -> PointsOperationResponse;
        set_payload(SetPayloadPoints) -> PointsOperationResponse;
        overwrite_payload(SetPayloadPoints) -> PointsOperationResponse;
        delete_payload(DeletePayloadPoints) -> PointsOperationResponse;
        clear_payload(ClearPayloadPoints) -> PointsOperationResponse;
        create_field_index(CreateFieldIndexCollection) -> PointsOperationResponse;
        delete_field_index(DeleteFieldIndexCollection) -> PointsOperationResponse;
        create_vector_name(CreateVectorNameRequest) -> PointsOperationResponse;
        delete_vector_name(DeleteVectorNameRequest) -> PointsOperationResponse;
        search(SearchPoints) -> SearchResponse;
        search_batch(SearchBatchPoints) -> SearchBatchResponse;
        search_groups(SearchPointGroups) -> SearchGroupsResponse;
        scroll(ScrollPoints) -> ScrollResponse;
        recommend(RecommendPoints) -> RecommendResponse;
        recommend_batch(RecommendBatchPoints) -> RecommendBatchResponse;
        recommend_groups(RecommendPointGroups) -> RecommendGroupsResponse;
        discover(DiscoverPoints) -> DiscoverResponse;
        discover_batch(DiscoverBatchPoints) -> DiscoverBatchResponse;
        update_batch(UpdateBatchPoints) -> UpdateBatchResponse;
        query(QueryPoints) -> QueryResponse;
        query_groups(QueryPointGroups) -> QueryGroupsResponse;
        facet(FacetCounts) -> FacetResponse;
        search_matrix_pairs(SearchMatrixPoints) -> SearchMatrixPairsResponse;
        search_matrix_offsets(SearchMatrixPoints) -> SearchMatrixOffsetsResponse;
    }
}

type Told<T> = Result<T, Status>;

impl State {
    fn stored(&mut self, name: &str) -> Told<&mut Stored> {
        let missing = || Status::not_found(format!("Not found: Collection `{name}` doesn't exist!"));
        self.collections.get_mut(name).ok_or_else(missing)
    }

    fn exists(&mut self, request: qdrant::CollectionExistsRequest) -> Told<qdrant::CollectionExistsResponse> {
        let exists = self.collections.contains_key(&request.collection_name);
        Ok(qdrant::CollectionExistsResponse { result: Some(CollectionExists { exists }), ..Default::default() })
    }

    fn create(&mut self, request: qdrant::CreateCollection) -> Told<qdrant::CollectionOperationResponse> {
        let name = request.collection_name;
        if self.collections.contains_key(&name) {
            return Err(Status::already_exists(format!("Wrong input: Collection `{name}` already exists!")));
        }
        let Some(vectors_config::Config::Params(params)) = request.vectors_config.and_then(|c| c.config) else {
            return Err(Status::invalid_argument("expected vector parameters"));
        };
        self.collections.insert(name, Stored { params, points: BTreeMap::new() });
        Ok(qdrant::CollectionOperationResponse { result: true, time: 0.0 })
    }

    fn delete(&mut self, request: qdrant::DeleteCollection) -> Told<qdrant::CollectionOperationResponse> {
        let result = self.collections.remove(&request.collection_name).is_some();
        Ok(qdrant::CollectionOperationResponse { result, time: 0.0 })
    }

    fn info(&mut self, request: qdrant::GetCollectionInfoRequest) -> Told<qdrant::GetCollectionInfoResponse> {
        let stored = self.stored(&request.collection_name)?;
        let (params, points) = (stored.params, stored.points.len() as u64);
        let config = Some(VectorsConfig { config: Some(vectors_config::Config::Params(params)) });
        let params = Some(CollectionParams { vectors_config: config, ..Default::default() });
        let config = Some(CollectionConfig { params, ..Default::default() });
        let result = Some(CollectionInfo { config, indexed_vectors_count: Some(points), ..Default::default() });
        Ok(qdrant::GetCollectionInfoResponse { result, ..Default::default() })
    }

    fn upsert(&mut self, request: qdrant::UpsertPoints) -> Told<qdrant::PointsOperationResponse> {
        assert_eq!(request.wait, Some(true), "what was reported as written must be there");
        if self.upserts_allowed.is_some_and(|allowed| self.seen.upserts >= allowed) {
            return Err(Status::unavailable("the server is going down"));
        }
        let count = request.points.len();
        let stored = self.stored(&request.collection_name)?;
        for point in request.points {
            let (expected, got) = (stored.params.size as usize, dense(&point).len());
            if expected != got {
                let text = format!("Wrong input: Vector dimension error: expected dim: {expected}, got {got}");
                return Err(Status::invalid_argument(text));
            }
            stored.points.insert(id(point.id.as_ref()), point);
        }
        self.seen.upserts += 1;
        self.seen.upserted += count;
        Ok(qdrant::PointsOperationResponse::default())
    }

    fn get(&mut self, request: qdrant::GetPoints) -> Told<qdrant::GetResponse> {
        let stored = self.stored(&request.collection_name)?;
        let points = request.ids.iter().filter_map(|wanted| stored.points.get(&id(Some(wanted))));
        let result = points
            .map(|p| RetrievedPoint { id: p.id.clone(), payload: p.payload.clone(), ..Default::default() })
            .collect();
        Ok(qdrant::GetResponse { result, ..Default::default() })
    }

    fn count(&mut self, request: qdrant::CountPoints) -> Told<qdrant::CountResponse> {
        let count = self.stored(&request.collection_name)?.points.len() as u64;
        Ok(qdrant::CountResponse { result: Some(CountResult { count }), ..Default::default() })
    }

    fn query_batch(&mut self, request: qdrant::QueryBatchPoints) -> Told<qdrant::QueryBatchResponse> {
        for query in &request.query_points {
            let params = query.params.as_ref().expect("every query states how it is to be searched");
            self.seen.beams.push((params.hnsw_ef, params.exact));
        }
        let stored = self.stored(&request.collection_name)?;
        let result = request.query_points.iter().map(|q| BatchResult { result: nearest(stored, q) }).collect();
        Ok(qdrant::QueryBatchResponse { result, ..Default::default() })
    }
}

fn nearest(stored: &Stored, query: &qdrant::QueryPoints) -> Vec<ScoredPoint> {
    let Some(query::Variant::Nearest(input)) = query.query.as_ref().and_then(|q| q.variant.clone()) else {
        panic!("only nearest neighbours are asked for");
    };
    let Some(vector_input::Variant::Dense(vector)) = input.variant else { panic!("only dense vectors are given") };
    let mut found: Vec<ScoredPoint> = (stored.points.values())
        .filter(|point| query.filter.as_ref().is_none_or(|filter| passes(filter, point)))
        .map(|point| {
            let score = dense(point).iter().zip(&vector.data).map(|(a, b)| a * b).sum();
            ScoredPoint { id: point.id.clone(), payload: point.payload.clone(), score, ..Default::default() }
        })
        .collect();
    found.sort_by(|a, b| b.score.total_cmp(&a.score));
    found.truncate(query.limit.unwrap_or(10) as usize);
    found
}

fn passes(filter: &Filter, point: &PointStruct) -> bool {
    let holds = |condition: &Condition| {
        let Some(condition::ConditionOneOf::Field(field)) = &condition.condition_one_of else {
            panic!("only conditions on fields are used");
        };
        let wanted = field.r#match.as_ref().and_then(|m| m.match_value.as_ref());
        let Some(qdrant::r#match::MatchValue::Keywords(wanted)) = wanted else {
            panic!("only lists of words are used")
        };
        match point.payload.get(&field.key).and_then(|v| v.kind.as_ref()) {
            Some(value::Kind::StringValue(text)) => wanted.strings.contains(text),
            _ => false,
        }
    };
    filter.must.iter().all(holds) && !filter.must_not.iter().any(holds)
}

fn id(id: Option<&PointId>) -> String {
    match id.and_then(|id| id.point_id_options.as_ref()) {
        Some(point_id::PointIdOptions::Uuid(uuid)) => uuid.clone(),
        other => panic!("points are named by UUIDs, got {other:?}"),
    }
}

/// The vector of a point, in the present or in the older form of the protocol.
#[allow(deprecated)]
fn dense(point: &PointStruct) -> Vec<f32> {
    let Some(vectors::VectorsOptions::Vector(v)) = point.vectors.as_ref().and_then(|v| v.vectors_options.clone())
    else {
        panic!("every point has one vector");
    };
    match v.vector {
        Some(vector::Vector::Dense(dense)) => dense.data,
        _ => v.data,
    }
}
