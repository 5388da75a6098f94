//! What stands beside the service: health, reflection, and an end that loses nothing.

use std::{sync::Arc, time::Duration};

use sluicegate::embedded::EmbeddedStore;
use tonic::transport::Channel;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};

use crate::support::{Server, passed};

const NAME: &str = "envoy.service.ratelimit.v3.RateLimitService";
const ONE: &str =
    "version: 1\nlimits:\n  - { name: one, algorithm: fixed_window, limit: 1, per: 1h, key: [] }\n";

async fn health(channel: Channel, service: &str) -> ServingStatus {
    let request = HealthCheckRequest { service: service.to_owned() };
    HealthClient::new(channel).check(request).await.unwrap().into_inner().status()
}

async fn reflected(channel: Channel, request: MessageRequest) -> MessageResponse {
    let request = ServerReflectionRequest { host: String::new(), message_request: Some(request) };
    let stream = futures_util::stream::iter([request]);
    let mut replies =
        ServerReflectionClient::new(channel).server_reflection_info(stream).await.unwrap().into_inner();
    replies.message().await.unwrap().unwrap().message_response.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_and_its_service_are_healthy_until_the_stop_and_decisions_go_on_while_it_drains() {
    let mut server = Server::start_over(
        &Arc::new(EmbeddedStore::default()),
        &[ONE],
        // Long enough for the few requests of this test, which are made while it lasts.
        Duration::from_secs(2),
    );
    let channel = server.channel().await;
    let mut client = server.connect().await;
    for service in ["", NAME] {
        assert_eq!(health(channel.clone(), service).await, ServingStatus::Serving);
    }
    server.stop();
    while health(channel.clone(), "").await == ServingStatus::Serving {
        tokio::task::yield_now().await;
    }
    assert_eq!(health(channel, NAME).await, ServingStatus::NotServing);
    assert_eq!(passed(&client.hit(&[&[("user", "alice")]]).await), [true]);
    assert_eq!(passed(&client.hit(&[&[("user", "alice")]]).await), [false]);
    // It ends although a connection is still open.
    server.join();
    client.ask(crate::support::request(vec![])).await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn reflection_tells_the_service_and_its_messages() {
    let server = Server::start(&[ONE]);
    let listed = reflected(server.channel().await, MessageRequest::ListServices(String::new())).await;
    let MessageResponse::ListServicesResponse(listed) = listed else { panic!("{listed:?}") };
    let names: Vec<_> = listed.service.iter().map(|service| service.name.as_str()).collect();
    assert!(names.contains(&NAME) && names.contains(&"grpc.health.v1.Health"), "{names:?}");
    let symbol =
        MessageRequest::FileContainingSymbol("envoy.service.ratelimit.v3.RateLimitRequest".to_owned());
    let told = reflected(server.channel().await, symbol).await;
    let MessageResponse::FileDescriptorResponse(told) = told else { panic!("{told:?}") };
    assert_eq!(told.file_descriptor_proto.len(), 1);
}
