package schema

//go:generate go run ./write ..
