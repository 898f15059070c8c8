// What OpenCloud is built from, pinned by go.sum beside this. Nothing is built here: `adapt` downloads by it.
module denizen.test/opencloud/sources

go 1.24.1

require (
	github.com/cs3org/reva/v2 v2.27.2
	github.com/longsleep/rndm v1.2.0
	github.com/opencloud-eu/opencloud v1.1.0
)
