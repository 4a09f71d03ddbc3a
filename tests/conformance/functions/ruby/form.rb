def handler(event, context)
  request = event["extensions"]["request"]
  return [request.route, request.params, request.remote_addr] if request.headers["x-ask"] == "route"
  return Dir.children(ENV["TMPDIR"]).select { |name| name.start_with?("upload-") } if request.headers["x-ask"] == "left"

  files = request.files.to_h do |name, file|
    read = File.binread(file.path)
    raise "the file differs" unless read == file.read && read == file.file.read && read.bytesize == file.size

    [name, [file.filename, file.content_type, file.size, read.byteslice(0, 16).force_encoding("ISO-8859-1").encode("UTF-8")]]
  end
  { forms: request.forms.keys.to_h { |name| [name, request.forms.getall(name)] }, files: files }
end
