// Package contracttest holds the running APIs to their OpenAPI documents. A
// test puts [Transport] under its HTTP client; from then on every answer is
// checked, whatever else the test is about: its status is one that the
// document gives for the route, the headers are there and have the form that
// they should, the content type and the body are the documented ones, and a
// body that the API accepted is one that the document allows. [Seen] tells
// which operations and statuses came by; with CONTRACT_COVERAGE set to a folder,
// each test program leaves that there.
//
// The schemas are checked by santhosh-tekuri/jsonschema, which implements JSON
// Schema 2020-12, the dialect of OpenAPI 3.1, in full and brings next to nothing
// along; the little that OpenAPI adds around the schemas (paths,
// statuses, media types, headers) is done here, strictly: what is not
// documented is a failure.
//
// Only tests import this package.
package contracttest
