// Package emptyroot does on an empty Debian what README says: git, make, curl,
// ca-certificates and Go are there, and nothing else. Its tests make the root with
// debootstrap. The one runs it over an overlay, so that all files that change are seen; the
// other sets it up as infra/deploy/one-machine does, and starts it with systemd.
package emptyroot
