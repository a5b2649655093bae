-- For wrk: requests the files of a set in turn. PATHS is a file with their names.
local requests, count, at = {}, 0, 0

function init()
    for path in io.lines(os.getenv("PATHS")) do
        count = count + 1
        requests[count] = wrk.format("GET", path)
    end
end

function request()
    at = at % count + 1
    return requests[at]
end
