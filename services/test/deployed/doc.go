// Package deployed tests the parts of a deployment (compose.yaml and infra/): the
// gateway's configuration in a real nginx, the queries of alerts and dashboard against
// the metrics of running services, and the services as processes with a role's
// credentials on a log of three nodes. It contains only tests.
package deployed
