// Package cuts tests a deployment whose machines lose each other: every node of the log and
// every service runs in its own network namespace, and iptables drops packets between them.
// Nothing tells the other side, as when a machine loses its power or its network. The
// package contains only tests. They need root, ip and iptables.
package cuts
