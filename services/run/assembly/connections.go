package assembly

import "github.com/memory-ledger/ledger/services/httpapi"

// maxConnections returns how many connections an API may have open: as usual, or
// fewer if the log and the database would otherwise run out of file descriptors.
func (d *APIServer) maxConnections() int {
	files, known := openFiles()
	if !known {
		return httpapi.DefaultConnections
	}
	most := connectionsWithin(files, max(1, d.neighbors.APIs), int(d.Pool.Config().MaxConns))
	if most < httpapi.DefaultConnections {
		d.Logger.Warn("fewer connections than usual, for the limit on open files (ulimit -n)", "connections", most, "files", files)
	}
	return most
}

// connectionsWithin shares a limit on open files between the APIs of a process.
func connectionsWithin(files uint64, apis, database int) int {
	const plenty = 1 << 30 // also for "unlimited", which is the largest number
	// This is the number of files that a service has open besides the connections of clients
	// and to the database: the log's files and connections, pipes to local servers.
	left := int(min(files, plenty)) - 64 - 2*database
	// This is the lowest limit of an API, however few files it may open.
	return min(httpapi.DefaultConnections, max(16, left/apis))
}
