// Package feed gives owners their own history: pages of past events, and new events as
// they arrive.
//
// The log is the only source. A cursor is the sequence of a message, so it is valid for
// as long as the log exists, on every replica, whatever happens to the read models. All
// events of a message have one cursor.
//
//	            subscribe                       message of the owner
//	Follower -> behind ----- page is empty ---> live ---------------> live
//	              ^  \                           |
//	              |   page of the log            | tail begins again, or the follower's
//	              +------------------------------+ channel is full
//
// While there are followers, one tail in each process follows the log for all of them, by
// direct gets. It drops a follower that does not keep up. A dropped follower subscribes
// again and reads the messages that it missed from the log.
package feed
