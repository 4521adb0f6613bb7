package config

import "reflect"

// variableOf returns the environment variable of a field of Config.
func variableOf(field string) string {
	f, ok := reflect.TypeFor[Config]().FieldByName(field)
	if !ok {
		return field
	}
	return f.Tag.Get("env")
}
