package projector

// SliceOf decodes the slice in a message's payload.
var SliceOf = unmarshal
