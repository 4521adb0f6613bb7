package projector

// DefaultPace is how often a projector commits at most while it keeps up.
const DefaultPace = defaultPace

// SliceOf returns the slice of a message.
var SliceOf = unmarshal
