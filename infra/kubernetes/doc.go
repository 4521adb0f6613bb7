// Package kubernetes holds manifests for Kubernetes that run the services of
// compose.yaml: a base for kustomize, a component that scales the APIs, and an overlay
// to copy. Its tests build the manifests and check them against the types of the API,
// the variables that the services and servers read, and compose.yaml.
package kubernetes
