// Package kubernetes holds what compose.yaml runs as manifests for Kubernetes: a
// base for kustomize, a component that scales the APIs, and an overlay to copy.
// Its tests build them and hold them to the types of the API, to what the services
// and servers read from their environment, and to compose.yaml.
package kubernetes
