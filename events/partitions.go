package events

import "crypto/sha256"

// PartitionCount is how many partitions owners are divided into. Every subject names its
// owner's partition, so that owners can be divided among deployments.
const PartitionCount = 256

// PartitionOf returns an owner's partition.
func PartitionOf(o Owner) int { return int(sha256.Sum256([]byte(o))[0]) }
