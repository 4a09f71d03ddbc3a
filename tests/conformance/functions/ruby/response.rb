def handler(event, context)
  Fnd::Response.new({ made: true }, status: 201, headers: { "X-Name" => "value" })
end
