package projector

// DefaultPace is the least time between two commits while a projector keeps up.
const DefaultPace = defaultPace

// SliceOf decodes the slice in a message's payload.
var SliceOf = unmarshal
