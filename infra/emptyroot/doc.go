// Package emptyroot does on an empty Debian what README says: git, make, curl,
// ca-certificates and Go are there, and nothing else. Its test makes the root with
// debootstrap, and runs it over an overlay, so that all files that change are seen.
package emptyroot
