package projector

// DefaultPace is how often a projector commits at most while it keeps up.
const DefaultPace = defaultPace
