package runner

// SlicePace is how often a projector commits at most while it keeps up.
const SlicePace = slicePace
